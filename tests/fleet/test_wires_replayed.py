"""The golden streams of every wire through a whole fleet: the official SDK reads of each what the driver for recordings says of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.normalize.registry import WIRES
from scripts.fleet_conformance import differences, run
from scripts.replay.cases import Case, cases

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
OURS = "canonical"  # spoken by programs of ours, through a door of their own


async def test_the_sdk_reads_every_wire_as_the_driver_for_recordings_does(redis_url: str) -> None:
    found = [case for case in cases(GOLDEN) if case.wire in WIRES]
    assert {case.wire for case in found} == set(WIRES) - {OURS}
    results = await run(redis_url, found)
    assert [(result.case.file, result.differences) for result in results if result.differences] == []
    assert all(result.events for result in results)
    completed = {result.case.wire for result in results if result.accumulated}
    assert completed == set(WIRES) - {OURS}


def read(case: Case) -> list[dict[str, Any]]:
    """The events of a turn as the SDK would hand them out."""
    return [json.loads(frame.data) for frame in case.expected("t").frames]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [(b"first", b"last "), (b"Bergen", b"Tromso"), (b'"total_tokens": 55', b'"total_tokens": 56')],
    ids=["a word", "an argument", "usage"],
)
def test_a_difference_is_found(was: bytes, becomes: bytes) -> None:
    (case,) = (one for one in cases(GOLDEN) if one.file == "chat/text-two-calls.sse")
    other = Case(file=case.file, wire=case.wire, data=case.data.replace(was, becomes))
    assert differences(read(case), case.expected("t")) == []
    assert differences(read(other), case.expected("t"))


@pytest.mark.long
def test_the_script_counts_what_it_played_and_is_red_where_there_is_nothing(tmp_path: Path) -> None:
    def play() -> tuple[int, str]:
        command = [sys.executable, "-m", "scripts.fleet_conformance", str(tmp_path)]
        done = subprocess.run(command, cwd=GOLDEN.parents[1], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert play()[0] == 1
    (tmp_path / "chat").mkdir()
    shutil.copy(GOLDEN / "chat" / "text-two-calls.sse", tmp_path / "chat")
    code, told = play()
    assert code == 0, told
    assert "turns 1 of 1 files, differences 0" in told


def test_a_recording_of_two_turns_is_two_cases(tmp_path: Path) -> None:
    lines = [
        '{"id":0,"result":{"protocolVersion":1}}',
        '{"id":1,"result":{"sessionId":"s"}}',
        '{"id":7,"method":"session/request_permission","params":{}}',
        '{"id":7,"result":{"stopReason":"end_turn"}}',
        "noise",
        '{"id":8,"result":{"stopReason":"end_turn"}}',
    ]
    folder = tmp_path / "acp"
    folder.mkdir()
    (folder / "two.jsonl").write_text("\n".join(lines))
    prompt = '{{"from":"client","msg":{{"id":{id},"method":"session/prompt"}}}}'
    told = [prompt.format(id=7), *(f'{{"from":"agent","msg":{line}}}' for line in lines[2:4]), prompt.format(id=8)]
    (folder / "two.both.jsonl").write_text("\n".join([*told, f'{{"from":"agent","msg":{lines[5]}}}']))
    (tmp_path / "INDEX.tsv").write_text("file\twire\nacp/two.jsonl\tacp\nacp/two.both.jsonl\tacp\n")
    first, second, *both = cases(tmp_path)
    assert [case.file for case in (first, second)] == ["acp/two.jsonl#1", "acp/two.jsonl#2"]
    assert first.data.splitlines()[0] == lines[2].encode()
    assert b'"PROMPT"' in first.data.splitlines()[1]
    assert second.data.splitlines()[0] == b"noise"
    assert [len(case.data.splitlines()) for case in both] == [2, 1]
