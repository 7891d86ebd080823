import json

import pytest

from pipeline.output import Block
from pipeline.project.parts import Profile
from pipeline.project.registry import PROJECTORS, project

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


def test_a_block_comes_back_from_its_fields() -> None:
    assert Block.from_fields(BLOCK.as_fields()) == BLOCK
