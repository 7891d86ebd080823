from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.parts import part_from_hash
from workers.config import TargetConfig
from workers.delivery.addresses import Address, address_of, parse
from workers.delivery.outcomes import LONGEST_RETRY_AFTER_MS, Found
from workers.delivery.readback import Seen, judge, might_be
from workers.delivery.terms import seconds_to_ms


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [
        (1.5, 1_500),
        ("2", 2_000),
        (" 0.0004 ", 1),
        (0, 0),
        (10**9, LONGEST_RETRY_AFTER_MS),
        ("nan", None),
        ("inf", None),
        (-1, None),
        (True, None),
        (None, None),
        ({}, None),
        ("soon", None),
    ],
)
def test_a_wait_in_seconds_is_read_or_left_out(seconds: object, ms: int | None) -> None:
    assert seconds_to_ms(seconds) == ms


@given(st.lists(st.text(min_size=1, max_size=8).filter(str.isprintable), min_size=1, max_size=3))
def test_any_address_can_be_written(pieces: list[str]) -> None:
    chat, thread, reply = (*pieces, "", "")[:3]
    written = "/".join(quote(piece, safe="") for piece in pieces)
    assert parse(written) == Address(chat=chat, thread=thread, reply=reply)


@pytest.mark.parametrize("recipient", ["", "/x", "a/b/c/d"])
def test_what_is_no_address_is_refused(recipient: str) -> None:
    with pytest.raises(ValueError, match="is expected"):
        parse(recipient)


def test_only_a_turns_first_message_is_a_reply() -> None:
    config = TargetConfig(channel="slack", recipient="c/t/r")
    first, second = (part_from_hash("x", {"state": "pending", "block": block}) for block in ("0", "1"))
    assert first is not None
    assert second is not None
    assert address_of(first, config) == Address(chat="c", thread="t", reply="r")
    assert address_of(second, config) == Address(chat="c", thread="t")


def test_a_mark_decides_before_any_doubt() -> None:
    doubt = Seen(mark="", text="same", is_bots=True)
    proof = Seen(mark="k", text="", is_bots=True)
    assert judge([doubt, proof], mark="k", body="same") is Found.YES
    assert judge([doubt], mark="k", body="same") is Found.UNCLEAR
    assert judge([], mark="k", body="same") is Found.NO


@given(st.text(), st.text(alphabet=" *_~`|>#-.\n\t"))
def test_what_a_channel_does_to_marks_and_spaces_never_rules_a_message_out(text: str, noise: str) -> None:
    assert might_be(noise.join(text), text)
    assert might_be(f"{noise}{text.upper().lower()}{noise}", text.upper().lower())
