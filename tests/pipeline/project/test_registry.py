import json

import pytest

from pipeline.output import Block
from pipeline.project.parts import Profile
from pipeline.project.registry import PROJECTORS, profile_of, project

BLOCK = Block(ordinal=2, text="a()", opener="```py\n", closer="\n```", separator="\n", markers={"note": "cut"})


def profile(channel: str) -> Profile:
    return Profile(channel=channel, name="ops", turn="0-abc", session="s-1")


@pytest.mark.parametrize("channel", sorted(PROJECTORS))
def test_projection_gives_the_same_bytes_at_every_repeat(channel: str) -> None:
    first, second = project(BLOCK, profile(channel)), project(BLOCK, profile(channel))
    assert first == second
    assert [part.ordinal for part in first] == list(range(len(first)))


@pytest.mark.parametrize("channel", sorted(PROJECTORS))
def test_a_suppressed_block_gives_no_part(channel: str) -> None:
    assert project(Block(0, "x", markers={"suppressed": True}), profile(channel)) == []


@pytest.mark.parametrize("channel", sorted(PROJECTORS))
def test_a_block_of_blanks_gives_no_part(channel: str) -> None:
    assert project(Block(0, "", separator="\n\n"), profile(channel)) == []


def test_a_webhook_body_holds_the_text_and_its_separator_apart() -> None:
    (part,) = project(BLOCK, profile("webhook"))
    body = json.loads(part.body)
    assert (body["turn"], body["session"], body["block"], body["part"]) == ("0-abc", "s-1", 2, 0)
    assert (body["opener"], body["text"], body["closer"], body["separator"]) == ("```py\n", "a()", "\n```", "\n")


def test_a_console_shows_the_block_as_a_reader_sees_it() -> None:
    (part,) = project(BLOCK, profile("console"))
    assert part.body == "```py\na()\n```\n[cut]\n"


def test_what_a_console_shows_one_part_behind_the_other_is_never_glued() -> None:
    told = [
        Block(0, "durable"),
        Block(1, "", markers={"kind": "tool", "note": "look"}),
        Block(2, "NO", markers={"boundary": " "}),
        Block(3, "a", opener="```\n", closer="\n```"),
        Block(4, "b", opener="```\n", closer="\n```", separator="\n"),
    ]
    parts = [part.body for block in told for part in project(block, profile("console"))]
    assert "".join(parts) == "durable\n[look]\n NO```\na\n```\n```\nb\n```\n"


def test_a_block_comes_back_from_its_fields() -> None:
    assert Block.from_fields(BLOCK.as_fields()) == BLOCK


@pytest.mark.parametrize("channel", ["discord", "matrix", "slack", "telegram"])
@pytest.mark.parametrize("text", ["42.", "The answer:\n\n42.", "41. one\n42.\n43. three"])
def test_a_number_alone_is_an_item_without_words_and_is_shown(channel: str, text: str) -> None:
    parts = project(Block(ordinal=0, text=text), profile_of(channel))
    assert ["42" in part.body for part in parts] == [True]


def test_items_with_words_get_nothing_added() -> None:
    (part,) = project(Block(ordinal=0, text="1. a\n\n2. b"), profile_of("matrix"))
    assert json.loads(part.body)["formatted_body"] == "<ol><li><p>a</p></li><li><p>b</p></li></ol>"


def test_a_list_that_begins_an_item_keeps_the_items_number_in_plain_text() -> None:
    (part,) = project(Block(ordinal=0, text="1. - x\n   - y\n2. z"), profile_of("matrix"))
    assert json.loads(part.body)["body"] == "1. • x\n  • y\n2. z"
