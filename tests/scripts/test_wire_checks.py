"""The checks of recordings without a repeated output find lost text, disorder, wrong ends and two sides that differ."""

import json
from pathlib import Path

import pytest

from pipeline.events import BlockFinal, Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted
from scripts import conformance, plain_reading
from scripts.order import breaches
from tests.pipeline.normalize import acp_lines as agent
from tests.pipeline.normalize import gemini_streams as gemini

GOOD = {
    "gemini": gemini.body(gemini.chunk({"text": "Hi"}, gemini.call("f", args={})), gemini.STOP),
    "acp": agent.lines(agent.thought("Hm"), agent.said("Hi"), agent.tool(title="f"), agent.END),
}
SUFFIX = {"gemini": "sse", "acp": "jsonl"}


def corpus(at: Path, wire: str, data: bytes, terminal: str = "done completed") -> Path:
    name = f"recorded.{SUFFIX[wire]}"
    (at / name).write_bytes(data)
    rows = [f"{name}\t{wire}\t{terminal}"]
    if wire == "acp":
        prompt = {"from": "client", "msg": {"id": 3, "method": "session/prompt", "params": {}}}
        sides = [prompt, *({"from": "agent", "msg": json.loads(line)} for line in data.splitlines())]
        (at / "recorded.both.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sides))
        rows.append("recorded.both.jsonl\tacp\t")
    (at / "INDEX.tsv").write_text("\n".join(["file\twire\tterminal", *rows]))
    (at / "EXPECT.tsv").write_text("file\tstrict\trule\n")
    (at / "deviations.jsonl").write_text("")
    return at


def differences(at: Path) -> list[str]:
    rows, indexed = conformance.run(at)
    assert len({row.file for row in rows}) == indexed
    return [row.difference for row in rows if row.difference]


@pytest.mark.parametrize("wire", GOOD)
def test_a_recording_without_a_difference_passes(tmp_path: Path, wire: str) -> None:
    assert differences(corpus(tmp_path, wire, GOOD[wire])) == []


@pytest.mark.parametrize("wire", GOOD)
def test_another_end_than_the_listed_one_is_found(tmp_path: Path, wire: str) -> None:
    found = differences(corpus(tmp_path, wire, GOOD[wire], "fail 503"))
    assert found == ["['done completed'] instead of fail 503"]


@pytest.mark.parametrize("wire", GOOD)
def test_lost_text_is_found(tmp_path: Path, wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def more(data: bytes) -> plain_reading.Said:
        said = read(data)
        said.text += "lost"
        return said

    read = plain_reading.READERS[wire]
    monkeypatch.setitem(plain_reading.READERS, wire, more)
    assert any("lost" in one for one in differences(corpus(tmp_path, wire, GOOD[wire])))


def test_two_sides_that_differ_are_found(tmp_path: Path) -> None:
    corpus(tmp_path, "acp", GOOD["acp"])
    both = tmp_path / "recorded.both.jsonl"
    both.write_text(both.read_text().replace("Hm", "Ho"))
    assert len(differences(tmp_path)) == 1


# numbers as they follow each other in the legal order
DELTA = TextDelta(seq=1, at=0, item=0, content=0, track="text", text="a")
FINAL = BlockFinal(seq=2, at=0, item=0, content=0, track="text", text="a")
STARTED = ToolStarted(seq=3, at=0, item=1, call_id="c", name="f", kind="function")
FINISHED = ToolFinished(seq=4, at=0, item=1, call_id="c", status="completed")
END = TurnCompleted(seq=5, at=0, outcome="completed")


@pytest.mark.parametrize(
    "events",
    [
        [DELTA, FINAL],
        [END, END],
        [DELTA, END],
        [DELTA, FINAL, DELTA, END],
        [FINAL, END],
        [STARTED, END],
        [FINISHED, END],
        [STARTED, FINISHED, STARTED, END],
        [TextDelta(seq=1, at=0, item=1, content=0, track="tool_input", text="a"), END],
    ],
)
def test_disorder_is_found(events: list[Event]) -> None:
    assert breaches(events) != []


def test_order_is_order() -> None:
    assert breaches([DELTA, FINAL, STARTED, FINISHED, END]) == []
