"""Six long answers on every channel: the messages as they were read and found right, and their limits counted by somebody else."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from pipeline.project.registry import profile_of
from tests.pipeline.project.answers import ANSWERS, CHATS, GOLDEN, golden, written
from tests.pipeline.project.reading import read_html

COUNT = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter((line) => line);
console.log(JSON.stringify(lines.map((line) => {
  const text = JSON.parse(line);
  return [text.length, text.split("\\n").length, text.isWellFormed ? text.isWellFormed() : true, text.trim().length];
})));
"""


def read(answer: str, channel: str) -> list[dict[str, Any]]:
    lines = golden(answer, channel).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def counted(message: dict[str, Any], channel: str) -> str:
    return str(json.loads(message["text"])["formatted_body"] if channel == "matrix" else message["text"])


def test_there_are_six_answers() -> None:
    assert ANSWERS == ("code", "huge", "languages", "lists", "maths", "tables")
    text = (GOLDEN / "code.md").read_text(encoding="utf-8")
    assert len(set(re.findall(r"(?m)^(?:`{3,}|~{3})([a-z]+)$", text))) == 10


@pytest.mark.parametrize("channel", CHATS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_becomes_its_messages(answer: str, channel: str) -> None:
    assert written(answer, channel) == golden(answer, channel).read_bytes()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("channel", CHATS)
def test_javascript_counts_no_message_above_its_limit(channel: str) -> None:
    texts = [counted(message, channel) for answer in ANSWERS for message in read(answer, channel)]
    given = "\n".join(json.dumps(text) for text in texts)
    made = subprocess.run(["node", "-e", COUNT], input=given, capture_output=True, text=True, check=True, timeout=60)
    counts = json.loads(made.stdout)
    assert len(counts) == len(texts)
    profile = profile_of(channel)
    for (length, lines, is_sound, visible), text in zip(counts, texts, strict=True):
        assert profile.limit is not None
        assert 0 < length <= profile.limit, text
        assert lines <= (profile.max_lines or lines), text
        assert is_sound, text
        assert visible > 0


@pytest.mark.parametrize("channel", ["telegram", "matrix"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_another_parser_finds_every_element_closed_and_every_entity_whole(answer: str, channel: str) -> None:
    for message in read(answer, channel):
        assert read_html(counted(message, channel)).strip()


@pytest.mark.parametrize("channel", ["discord", "slack"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_every_fence_is_closed_in_its_message(answer: str, channel: str) -> None:
    for message in read(answer, channel):
        assert message["text"].count("```") % 2 == 0


@pytest.mark.parametrize("channel", CHATS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_message_is_no_crumb(answer: str, channel: str) -> None:
    whole = [message for message in read(answer, channel) if message["mode"] == "whole"]
    limit = profile_of(channel).limit or 1
    size = sum(len(counted(message, channel)) for message in whole)
    lines = sum(counted(message, channel).count("\n") + 1 for message in whole)
    rows = lines // (profile_of(channel).max_lines or lines + 1)
    assert len(whole) <= 2.5 * (size / limit + rows) + 2
