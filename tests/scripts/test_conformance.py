"""The conformance script finds every difference, counts every file, and says so by its exit code."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.turn import collect
from scripts import conformance
from tests.pipeline.normalize.streams import (
    CREATED,
    IN_PROGRESS,
    added,
    body,
    completed,
    delta,
    done,
    message,
    text_done,
    up,
)

PLACE: Any = {"item_id": "m1", "content_index": 0}
GOOD = [
    CREATED,
    IN_PROGRESS,
    added(message()),
    up("content_part.added", **PLACE, part={"type": "output_text", "text": "", "annotations": []}),
    delta("Hi"),
    text_done("Hi"),
    up("content_part.done", **PLACE, part={"type": "output_text", "text": "Hi", "annotations": []}),
    done(message("m1", "Hi")),
    completed(done(message("m1", "Hi"))["item"]),
]
EVENTS = ["start", "s item_started", "d 0.0 text 'Hi'", "f 0.0 text 'Hi'", "done completed"]


def corpus(at: Path, *, expected: list[str], recorded: bytes, verdict: str = "accept\t") -> Path:
    (at / "minimal.sse").write_bytes(body(*GOOD))
    (at / "recorded.sse").write_bytes(recorded)
    (at / "INDEX.tsv").write_text(
        "file\twire\trepo\nminimal.sse\tresponses\tr\nrecorded.sse\tresponses\tr\nother.sse\tother\tr\n"
    )
    (at / "EXPECT.tsv").write_text(f"file\tstrict\trule\nrecorded.sse\t{verdict}\n")
    (at / "deviations.jsonl").write_text(json.dumps({"wire": "responses", "file": "minimal.sse", "expected": expected}))
    return at


def exit_code(at: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["conformance", str(at)])
    return conformance.main()


def test_a_corpus_without_a_difference_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(corpus(tmp_path, expected=EVENTS, recorded=body(*GOOD)), monkeypatch) == 0
    assert "files checked 2 of 2 in the index, differences 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expected", "recorded", "verdict"),
    [
        (EVENTS[:-1], body(*GOOD), "accept\t"),
        (EVENTS, body(*GOOD[:-1], completed(message("m1", "Hi"), message("m2", "Ho"), {"type": "x"}), delta("x")), "accept\t"),
        (EVENTS, body(*GOOD), "refuse\tcall_id_changed"),
        (EVENTS, body(*GOOD[1:]), "accept\t"),
        (EVENTS, body(*GOOD[1:]), "refuse\tcall_id_changed"),
    ],
)  # fmt: skip
def test_a_difference_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    expected: list[str],
    recorded: bytes,
    verdict: str,
) -> None:
    assert exit_code(corpus(tmp_path, expected=expected, recorded=recorded, verdict=verdict), monkeypatch) == 1
    assert "differences 1" in capsys.readouterr().out


def test_without_a_corpus_it_says_how_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["conformance"])
    assert conformance.main() == 2


def test_a_frame_that_is_not_the_upstreams_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_parts = [frame for frame in GOOD if "part" not in frame]
    assert exit_code(corpus(tmp_path, expected=EVENTS, recorded=body(*without_parts)), monkeypatch) == 1
    assert "9 frames for 7 events" in capsys.readouterr().out


def test_a_driver_that_gives_something_else_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conformance, "collect", lambda events: collect(events[:-1]))
    assert exit_code(corpus(tmp_path, expected=EVENTS, recorded=body(*GOOD)), monkeypatch) == 1
    assert "the collecting driver gives something else" in capsys.readouterr().out


def test_a_verdict_on_a_file_that_is_not_there_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(tmp_path, expected=EVENTS, recorded=body(*GOOD))
    with (tmp_path / "EXPECT.tsv").open("a") as table:
        table.write("gone.sse\taccept\t\n")
    assert exit_code(tmp_path, monkeypatch) == 1
    assert "expected, and not in the index" in capsys.readouterr().out
