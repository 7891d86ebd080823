"""Shell commands and patches stream their input by events of their own: several commands of one call, told apart by number."""

import pytest

from pipeline.errors import WireError
from pipeline.events import BlockFinal, TextDelta
from pipeline.turn import Validation
from tests.pipeline.streams import Json, call, data_of, opening, response, run
from tests.pipeline.test_rules import changed
from tests.pipeline.test_turn import expected_of
from tests.pipeline.test_turn_properties import check_public

SHELL: Json = {
    "id": "sh_0",
    "type": "shell_call",
    "call_id": "call_0",
    "status": "completed",
    "action": {"commands": ["ls -l", "pwd"], "timeout_ms": None},
}
PATCH: Json = {
    "id": "apc_0",
    "type": "apply_patch_call",
    "call_id": "call_0",
    "status": "completed",
    "operation": {"type": "update_file", "path": "a", "diff": "+b\n-c"},
}


def command(word: str, number: int, **more: str) -> Json:
    return {"type": f"response.shell_call_command.{word}", "output_index": 0, "command_index": number, **more}


def diff(word: str, **more: str) -> Json:
    return {"type": f"response.apply_patch_call_operation_diff.{word}", "output_index": 0, "item_id": "apc_0", **more}


def added(item: Json, **more: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", **more}}


def done(item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


COMMANDS = [
    command("added", 0, command=""),
    command("delta", 0, delta="ls ", obfuscation="x"),
    command("delta", 0, delta="-l"),
    command("done", 0, command="ls -l"),
    command("added", 1, command=""),
    command("delta", 1, delta="pwd"),
    command("done", 1, command="pwd"),
]
DIFF = [diff("delta", delta="+b\n"), diff("delta", delta="-c"), diff("done", diff="+b\n-c")]
SHELL_EVENTS = [added(SHELL, action={"commands": []}), *COMMANDS, done(SHELL)]
PATCH_EVENTS = [added(PATCH, operation={"type": "update_file", "path": "a", "diff": ""}), *DIFF, done(PATCH)]
CASES = [(SHELL_EVENTS, SHELL), (PATCH_EVENTS, PATCH)]


def completed(item: Json) -> Json:
    return {"type": "response.completed", "response": response("completed", [item])}


@pytest.mark.parametrize(("events", "item"), CASES, ids=["shell", "patch"])
def test_a_conforming_stream_passes_whole(events: list[Json], item: Json) -> None:
    whole = [*opening(), *events, completed(item)]
    decoded = run(whole)
    shown = [{name: value for name, value in frame.items() if name != "item_id"} for frame in data_of(decoded.frames)]
    given = [{name: value for name, value in frame.items() if name != "item_id"} for frame in expected_of(whole)]
    assert shown == given  # our frames say the item's id as well, where the upstream's need not
    assert run(whole, Validation.STRICT).frames == decoded.frames


def test_each_command_is_a_text_of_its_own() -> None:
    events = run([*opening(), *SHELL_EVENTS, completed(SHELL)]).events
    deltas = [(event.content, event.text) for event in events if isinstance(event, TextDelta)]
    assert deltas == [(0, "ls "), (0, "-l"), (1, "pwd")]
    finals = [(event.content, event.text) for event in events if isinstance(event, BlockFinal)]
    assert finals == [(0, "ls -l"), (1, "pwd")]


@pytest.mark.parametrize(
    ("events", "member", "expected"),
    [
        (SHELL_EVENTS, "action", {"commands": ["ls -l", "pwd"]}),
        (PATCH_EVENTS, "operation", {"type": "update_file", "path": "a", "diff": "+b\n-c"}),
    ],
    ids=["shell", "patch"],
)
def test_a_call_cut_off_keeps_what_was_streamed(events: list[Json], member: str, expected: Json) -> None:
    for cut in (events[:-1], [event for event in events[:-1] if not event["type"].endswith(".done")]):
        decoded = run([*opening(), *cut])
        check_public(decoded.frames)
        item = decoded.payload.response["output"][0]
        assert (item[member], item["status"]) == (expected, "incomplete")


def test_finals_that_never_came_are_told_before_the_end() -> None:
    cut = [event for event in SHELL_EVENTS if not event["type"].endswith("command.done")]
    frames = data_of(run([*opening(), *cut, completed(SHELL)]).frames)
    finals = [frame for frame in frames if frame["type"] == "response.shell_call_command.done"]
    assert [(frame["command_index"], frame["command"]) for frame in finals] == [(0, "ls -l"), (1, "pwd")]


@pytest.mark.parametrize(
    ("events", "index", "member"), [(SHELL_EVENTS, 4, "command"), (PATCH_EVENTS, 3, "diff")], ids=["shell", "patch"]
)
def test_a_final_that_contradicts_its_deltas_is_refused_in_strict(events: list[Json], index: int, member: str) -> None:
    wrong = [*opening(), *changed(events, index, member, "other")]
    with pytest.raises(WireError) as refused:
        run(wrong, Validation.STRICT)
    assert refused.value.diagnostic.code == "input_mismatch"
    check_public(run(wrong).frames)


def test_a_repeated_final_is_left_out() -> None:
    repeated = [*opening(), *SHELL_EVENTS[:5], SHELL_EVENTS[4], *SHELL_EVENTS[5:], completed(SHELL)]
    assert data_of(run(repeated).frames) == data_of(run([*opening(), *SHELL_EVENTS, completed(SHELL)]).frames)
    with pytest.raises(WireError) as refused:
        run(repeated, Validation.STRICT)
    assert refused.value.diagnostic.code == "repeated"


def test_commands_before_their_call_wait_for_it() -> None:
    events = [*opening(), *COMMANDS[1:3], COMMANDS[5], SHELL_EVENTS[0], *SHELL_EVENTS[-1:], completed(SHELL)]
    decoded = run(events)
    check_public(decoded.frames)
    frames = data_of(decoded.frames)
    deltas = [(frame["command_index"], frame["delta"]) for frame in frames if frame["type"].endswith("command.delta")]
    assert deltas == [(0, "ls -l"), (1, "pwd")]


def test_a_commands_start_without_its_call_or_behind_its_end_is_left_out() -> None:
    events = [*opening(), COMMANDS[0], *SHELL_EVENTS, COMMANDS[0], completed(SHELL)]
    assert data_of(run(events).frames) == data_of(run([*opening(), *SHELL_EVENTS, completed(SHELL)]).frames)
    late = [*opening(), *SHELL_EVENTS, COMMANDS[0], completed(SHELL)]
    with pytest.raises(WireError) as refused:
        run(late, Validation.STRICT)
    assert refused.value.diagnostic.code == "item_done"


def test_a_command_without_text_and_a_call_that_comes_whole_tell_no_input() -> None:
    empty = [SHELL_EVENTS[0], command("delta", 0, delta=""), SHELL_EVENTS[-1]]
    events, whole = call(1, ["{}"])
    frames = data_of(run([*opening(), *empty, events[0], events[-1]]).frames)
    assert not any(frame["type"].endswith(("command.done", "arguments.done")) for frame in frames)
    assert frames[-2]["item"] == whole


def test_a_command_that_begins_without_its_text_begins_empty() -> None:
    start = {name: value for name, value in COMMANDS[0].items() if name != "command"}
    decoded = run([*opening(), SHELL_EVENTS[0], start, *SHELL_EVENTS[2:], completed(SHELL)])
    assert [frame.get("command") for frame in data_of(decoded.frames) if frame["type"].endswith("command.added")] == [
        "",
        "",
    ]
    run_again = run(data_of(decoded.frames), Validation.STRICT)
    assert data_of(run_again.frames) == data_of(decoded.frames)
