"""The attack with chat channels: the checker finds what is planted in a chat, and a run finds nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.chaos.chats import SHARES, Chats
from scripts.chaos_check.chats import letters
from tests.scripts.chaos_logs import TEXTS, faults, plant, write, write_run


def chats_of(folder: Path, texts: dict[str, list[str]]) -> Path:
    """A run in which nothing went wrong elsewhere, and whose chats show this."""
    write_run(folder)
    write(folder / "chats.jsonl", [{"target": "room", "key": key, "texts": shown} for key, shown in texts.items()])
    return folder


def test_a_chat_that_shows_every_block_once_is_in_order_however_it_is_written(tmp_path: Path) -> None:
    assert faults(chats_of(tmp_path, {key: ["".join(texts)] for key, texts in TEXTS.items()})) == (0, 0, 0)
    marked = {"k1": ["**One**,", "_two_\n"], "k0": ["Ha", "ha ha"]}
    assert faults(chats_of(tmp_path, marked)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (["one, "], (1, 0, 0)),
        ([], (1, 0, 0)),
        (["one, ", "two", "two"], (0, 1, 0)),
        (["two", "one, "], (0, 0, 1)),
    ],
)
def test_what_is_planted_in_a_chat_is_found(tmp_path: Path, shown: list[str], expected: tuple[int, int, int]) -> None:
    assert faults(chats_of(tmp_path, {"k1": shown})) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (["one, ", "two"], (0, 0, 0)),
        (["two"], (0, 0, 0)),
        (["one, "], (1, 0, 0)),
        (["one, ", "one, ", "two"], (0, 1, 0)),
    ],
)
def test_only_the_block_that_is_listed_as_unknown_may_be_missing(
    tmp_path: Path, shown: list[str], expected: tuple[int, int, int]
) -> None:
    folder = chats_of(tmp_path, {"k1": shown})
    unknown: dict[str, Any] = {"turn": "1-k1", "id": "msg_1-k1.0.room.0", "target": "room", "state": "unknown"}
    plant(folder, "ledger.jsonl", lambda lines: lines.append(unknown))
    assert faults(folder) == expected


def test_letters_are_what_no_channel_changes() -> None:
    assert letters("**Grüße**, <b>1</b>!\n") == "grüsseb1b"


def test_each_turn_has_a_chat_of_its_own_everywhere() -> None:
    chats = Chats(1, deadline_s=1.0)
    assert len({*chats.targets_of("k1"), *chats.targets_of("k2")}) == 8
    assert {name.partition(":")[0] for name in chats.targets_of("k1")} == {"discord", "slack", "telegram", "matrix"}
    assert all(0 < sum(shares.values()) < 0.2 for shares in SHARES.values())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_any_chat(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.chaos", "--json", "--chats", "--turns", "100", "--seed", "5"]
    told = subprocess.run([*command, "--keep", str(tmp_path)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    line = json.loads(told.stdout)
    assert (line["lost"], line["duplicated"], line["misordered"], line["open"], line["dead"]) == (0, 0, 0, 0, 0)
    assert (line["turns"], line["kills"]) == (100, 10)
