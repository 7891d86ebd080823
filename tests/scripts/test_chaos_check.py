"""The checker finds exactly what was planted, and knows nothing of what it judges."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scripts.chaos_check as checker
from tests.scripts.chaos_logs import faults, judged, plant, sse_of, write_run

Lines = list[dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path)
    return tmp_path


def takings(lines: Lines) -> list[int]:
    return [at for at, line in enumerate(lines) if "taken" in line]


def drop_taking(lines: Lines) -> None:
    del lines[takings(lines)[1]]


def double_taking(lines: Lines) -> None:
    lines.append(lines[takings(lines)[1]])


def swap_takings(lines: Lines) -> None:
    first, second = takings(lines)[:2]
    lines[first], lines[second] = lines[second], lines[first]
    lines.insert(0, lines.pop(second - 1))  # the second request comes before both


def edit(key: str, old: str, new: str, *, again: bool = False) -> Any:
    def change(lines: Lines) -> None:
        hits = [line for line in lines if line["key"] == key and line.get("again") is again and old in line["sse"]]
        hits[0]["sse"] = hits[0]["sse"].replace(old, new)

    return change


def test_a_run_without_faults_has_none(run: Path) -> None:
    assert judged(run).counts() == {
        "turns": 3, "failed": 0, "lost": 0, "duplicated": 0, "misordered": 0, "unknown": 0, "repeats": 0,
    }  # fmt: skip


@pytest.mark.parametrize("target", ["idempotent", "reconcilable", "bare"])
def test_one_block_that_was_never_taken_is_lost(run: Path, target: str) -> None:
    plant(run, f"receiver-{target}.jsonl", drop_taking)
    assert faults(run) == (1, 0, 0)


@pytest.mark.parametrize("target", ["idempotent", "reconcilable", "bare"])
def test_one_block_that_was_taken_twice_is_duplicated(run: Path, target: str) -> None:
    plant(run, f"receiver-{target}.jsonl", double_taking)
    assert faults(run) == (0, 1, 0)


def test_two_blocks_the_other_way_round_are_misordered(run: Path) -> None:
    plant(run, "receiver-bare.jsonl", swap_takings)
    assert faults(run) == (0, 0, 1)


def test_a_later_turn_of_the_session_before_an_earlier_one_is_misordered(run: Path) -> None:
    def later_first(lines: Lines) -> None:
        lines[:] = [*lines[-6:], *lines[:-6]]

    plant(run, "receiver-bare.jsonl", later_first)
    assert faults(run) == (0, 0, 3)  # each of the three blocks that came too late


def test_a_stream_whose_tail_was_cut_is_lost(run: Path) -> None:
    plant(run, "clients.jsonl", edit("k1", sse_of("k1", 3).removeprefix(": foldline\n\n"), ""))
    assert faults(run) == (1, 0, 0)


def test_a_client_that_gave_up_lost_its_turn(run: Path) -> None:
    plant(run, "clients.jsonl", lambda lines: lines.append({"key": "k1", "gave_up": "read"}))
    assert faults(run) == (1, 0, 0)


def test_a_missing_frame_is_lost_and_a_repeated_one_is_duplicated(run: Path) -> None:
    frame = sse_of("k2", 2, 3).removeprefix(": foldline\n\n")
    plant(run, "clients.jsonl", edit("k2", frame, frame * 2))
    assert faults(run) == (0, 1, 0)
    plant(run, "clients.jsonl", edit("k2", frame * 2, ""))
    assert faults(run) == (2, 1, 0)  # the gap; what was said; and the blocks say more than the client read


def test_text_that_says_something_else_is_found_in_frames_and_in_blocks(run: Path) -> None:
    plant(run, "clients.jsonl", edit("k1", "two", "2"))
    account = judged(run)
    assert account.lost == 2  # the frames are not what was said; the blocks are not what was read


def test_two_deltas_the_other_way_round_are_misordered(run: Path) -> None:
    plant(run, "clients.jsonl", edit("k1", '"one, "', '"\\u0000"'))
    plant(run, "clients.jsonl", edit("k1", '"two"', '"one, "'))
    plant(run, "clients.jsonl", edit("k1", '"\\u0000"', '"two"'))
    assert judged(run).misordered == 2


def test_a_second_reading_that_differs_is_found(run: Path) -> None:
    plant(run, "clients.jsonl", edit("k0", "cafe0000", "cafe0001", again=True))
    assert faults(run) == (0, 0, 1)


def test_one_key_with_two_turns_is_duplicated(run: Path) -> None:
    plant(run, "clients.jsonl", lambda lines: lines.append({"key": "k1", "turn": "1-other"}))
    assert faults(run) == (0, 1, 0)


def test_another_body_under_the_same_id_is_found(run: Path) -> None:
    def other_body(lines: Lines) -> None:
        lines.append({**lines[0], "request": 99, "body": lines[0]["body"].replace("ha ", "ho ")})

    plant(run, "receiver-idempotent.jsonl", other_body)
    assert judged(run).duplicated == 1


def test_a_repeat_that_was_left_out_is_no_fault(run: Path) -> None:
    plant(run, "receiver-idempotent.jsonl", lambda lines: lines.append({**lines[0], "request": 99}))
    account = judged(run)
    assert (account.repeats, account.faults) == (1, [])


def test_what_is_listed_as_unknown_may_be_missing_and_may_not_come_twice(run: Path) -> None:
    def unknown(lines: Lines) -> None:
        next(line for line in lines if line["id"] == "msg_1-k0.1.bare.0")["state"] = "unknown"

    plant(run, "ledger.jsonl", unknown)
    plant(run, "receiver-bare.jsonl", drop_taking)
    account = judged(run)
    assert (account.unknown, account.faults) == (1, [])
    plant(run, "receiver-bare.jsonl", lambda lines: lines.extend([{"taken": 2, "id": "msg_1-k0.1.bare.0"}] * 2))
    assert judged(run).duplicated == 1


def test_a_turn_that_failed_must_be_an_exact_prefix(run: Path) -> None:
    def failed(lines: Lines) -> None:
        last = lines[-2]
        last["sse"] = sse_of("k2", 2, 3) + last["sse"].rpartition("id: 4-")[2].join(["id: 3-", ""]).replace(
            "response.completed", "response.failed"
        ).replace('"sequence_number": 4', '"sequence_number": 3')

    plant(run, "clients.jsonl", failed)
    account = judged(run)
    assert account.failed == 1
    assert [fault for fault in account.faults if "blocks" not in fault] == []


def test_deliveries_that_are_still_owed_are_lost(run: Path) -> None:
    plant(run, "ledger.jsonl", lambda lines: lines.append({"turn": "1-k0", "open": True}))
    assert faults(run) == (1, 0, 0)


def test_it_runs_by_itself_and_says_what_it_found(run: Path) -> None:
    plant(run, "receiver-bare.jsonl", drop_taking)
    told = subprocess.run(
        [sys.executable, "-m", "scripts.chaos_check", str(run)], capture_output=True, text=True, check=True
    )
    assert '"lost": 1' in told.stdout
    assert "block 1 of 1-k0 was never taken" in told.stderr


def test_it_imports_nothing_of_what_it_judges() -> None:
    for path in Path(checker.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("scripts.chaos_check"), name
