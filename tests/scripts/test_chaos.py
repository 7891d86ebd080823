"""A short attack, as a user would run it; the long one's line stands in the README."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts.chaos.receivers import Fault, Receiver
from scripts.chaos.scripting import as_line, play_of
from tests.scripts.chaos_logs import faults, judged, plant

TROUBLES = (
    "quarantined",
    "diverged",
    "trimmed",
    "folding_with_care",
    "rolled_back",
    "held_text_not_found",
    "turn_lost",
    "block_missing",
    "block_not_projected",
    "plan_mismatch",
)
"""Words of the logs by which text can be missing in a channel."""


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    told = subprocess.run(
        [sys.executable, "-m", "scripts.chaos", "--json", "--keep", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}\n{troubles(folder)}"
    line: dict[str, Any] = json.loads(told.stdout)
    return line


def troubles(folder: Path) -> str:
    """What the fleet's own logs say of turns that it ended itself, and of data that its server lost."""
    found = [
        f"{log.name}: {line}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(word in line for word in TROUBLES)
    ]
    return "\n".join(found[-40:])


def check(line: dict[str, Any], *, turns: int, kills: int) -> None:
    assert line["turns"] == turns
    assert line["kills"] == kills
    assert line["kills_in_flight"] > 0
    assert (line["lost"], line["duplicated"], line["misordered"]) == (0, 0, 0)
    assert (line["open"], line["dead"], line["unexpected_exits"]) == (0, 0, 0)


def test_nothing_is_lost_in_a_short_attack_and_what_is_planted_in_its_logs_is_found(tmp_path: Path) -> None:
    line = run(tmp_path / "run", "--turns", "20", "--seed", "3", "--sessions", "10")
    check(line, turns=20, kills=2)
    lost, double, cut = (shutil.copytree(tmp_path / "run", tmp_path / name) for name in ("lost", "double", "cut"))

    def takings(lines: list[dict[str, Any]]) -> list[int]:
        return [at for at, entry in enumerate(lines) if "taken" in entry]

    plant(lost, "receiver-idempotent.jsonl", lambda lines: lines.remove(lines[takings(lines)[0]]))
    assert faults(lost) == (1, 0, 0)
    plant(double, "receiver-bare.jsonl", lambda lines: lines.append(lines[takings(lines)[0]]))
    assert faults(double) == (0, 1, 0)

    def cut_last(lines: list[dict[str, Any]]) -> None:
        entry = next(e for e in reversed(lines) if not e.get("again", True) and "response.completed" in e["sse"])
        entry["sse"] = entry["sse"][: entry["sse"].rindex("id: ")]

    plant(cut, "clients.jsonl", cut_last)
    assert judged(cut).lost >= 1
    assert judged(cut).duplicated == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_longer_one(tmp_path: Path) -> None:
    check(run(tmp_path, "--turns", "250", "--seed", "11"), turns=250, kills=25)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_where_owners_are_hunted_until_innocent_turns_are_set_aside(tmp_path: Path) -> None:
    line = run(tmp_path, "--turns", "60", "--seed", "12", "--hunt")
    check(line, turns=60, kills=6)
    assert line["hunted"] > 0


def test_a_folder_with_an_earlier_run_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clients.jsonl").touch()
    told = subprocess.run(
        [sys.executable, "-m", "scripts.chaos", "--keep", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (told.returncode, "is not empty" in told.stderr) == (2, True)


def test_the_script_of_a_turn_follows_from_its_seed_and_key() -> None:
    assert as_line("k1", play_of(5, "k1")) == as_line("k1", play_of(5, "k1"))
    assert as_line("k1", play_of(5, "k1")) != as_line("k1", play_of(6, "k1"))
    assert any(not as_line(f"k{n}", play_of(1, f"k{n}"))["whole"] for n in range(200))


@pytest.mark.parametrize(
    ("kind", "fault", "taken", "found"),
    [
        ("idempotent", None, 1, 405),
        ("reconcilable", None, 2, 200),
        ("bare", None, 2, 405),
        ("reconcilable", Fault.REFUSE, 1, 200),
        ("bare", Fault.FAIL_AFTER, 2, 405),
        ("idempotent", Fault.FAIL_BEFORE, 1, 405),
    ],
)
async def test_a_receiver_of_each_kind_does_what_it_says(
    tmp_path: Path, kind: str, fault: Fault | None, taken: int, found: int
) -> None:
    receiver = Receiver(kind, tmp_path / "log")
    receiver.script = [fault]
    await receiver.start()
    async with aiohttp.ClientSession() as http:
        for _ in range(2):
            async with http.post(receiver.url, data="text", headers={"webhook-id": "m"}) as answer:
                await answer.read()
        async with http.get(receiver.find_url.replace("{id}", "m")) as answer:
            assert answer.status == found
    await receiver.stop()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sum("request" in line for line in lines) == 2
    assert sum("taken" in line for line in lines) == taken
    assert "request" in lines[0]
