"""A response that is read again: all of it must come again, in order, or it is another answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import Event, Status, TextDelta
from workers.ingest.replay import OtherAnswerError, Replay, fingerprint


def delta(text: str, seq: int = 0, at: int = 1) -> Event:
    return TextDelta(seq=seq, at=at, item=0, content=0, track="text", text=text)


KEEPALIVE = Status(seq=0, at=1, name="keepalive", wire={"type": "keepalive"})


@given(st.lists(st.text(max_size=3), max_size=8), st.data())
def test_it_goes_on_where_the_log_ends_whatever_was_known(texts: list[str], data: st.DataObject) -> None:
    known = data.draw(st.integers(0, len(texts)))
    replay = Replay([fingerprint(delta(text)) for text in texts[:known]], next_seq=known + 1)
    out = []
    for number, text in enumerate(texts):
        if data.draw(st.booleans()) and not replay.is_over:
            assert replay.take(KEEPALIVE) is None
        out.append(replay.take(delta(text, seq=number + 50, at=9)))
    new = [event for event in out if event is not None]
    assert [event.text for event in new if isinstance(event, TextDelta)] == texts[known:]
    assert [event.seq for event in new] == list(range(known + 1, len(texts) + 1))


@pytest.mark.parametrize("second", [["a", "c"], ["b"], [" a"]])
def test_another_answer_is_known_at_its_first_word(second: list[str]) -> None:
    replay = Replay([fingerprint(delta("a")), fingerprint(delta("b"))], next_seq=3)
    *before, other = second
    for text in before:
        replay.take(delta(text))
    with pytest.raises(OtherAnswerError):
        replay.take(delta(other))


def test_the_same_word_again_is_no_proof_of_the_place() -> None:
    replay = Replay([fingerprint(delta("ha ")) for _ in range(3)], next_seq=4)
    taken = [replay.take(delta("ha ")) for _ in range(4)]
    assert [event is None for event in taken] == [True, True, True, False]
