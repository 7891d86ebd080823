"""Every kind of item by the one table: known as the official SDK knows it, whole from its start to its end."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

import pipeline
from pipeline.errors import WireError
from pipeline.kinds import KINDS, kind_of, kind_of_tool, kind_of_track, takes
from pipeline.kinds.slot import INPUT
from pipeline.turn import Validation
from tests.pipeline.kinds.items import ITEMS, item
from tests.pipeline.streams import Json, accumulate, data_of, opening, response, run
from tests.pipeline.test_turn_properties import check_public

UNION = get_args(get_args(ResponseOutputItem)[0])
OPAQUE = [kind for kind in ITEMS if kind not in {"message", "reasoning"}]


def start_of(whole: Json) -> Json:
    """An item as its start shows it: its input, if that streams, is still empty."""
    row = kind_of(whole["type"])
    begun = {
        name: value for name, value in whole.items() if name not in {"content", "summary", "output", "results", "tools"}
    }
    if "status" in begun:
        begun["status"] = "in_progress"
    if row.input is not None:
        begun[row.input] = ""
    return begun


def events_of(kind: str, number: int = 0) -> list[Json]:
    """The life of an item whose kind streams nothing, or comes without its stream."""
    whole = item(kind, number)
    place = {"item_id": whole["id"], "output_index": number}
    return [
        {"type": "response.output_item.added", "output_index": number, "item": start_of(whole)},
        *({"type": f"response.{kind}.{word}", **place} for word in KINDS[kind].progress if word != "failed"),
        {"type": "response.output_item.done", "output_index": number, "item": whole},
    ]


def whole_turn(kinds: list[str]) -> list[Json]:
    events = opening()
    for number, kind in enumerate(kinds):
        events += events_of(kind, number)
    output = [item(kind, number) for number, kind in enumerate(kinds)]
    return [*events, {"type": "response.completed", "response": response("completed", output)}]


def test_the_table_names_every_kind_of_the_official_union() -> None:
    official = {get_args(one.model_fields["type"].annotation)[0] for one in UNION}
    assert official == {name for name, row in KINDS.items() if row.standard} == set(ITEMS)
    assert all(name == row.name for name, row in KINDS.items())
    assert len({row.prefix for row in KINDS.values() if row.standard}) == len(ITEMS)


@pytest.mark.parametrize("kind", ITEMS)
def test_the_examples_are_what_the_sdk_takes_them_for(kind: str) -> None:
    made: Any = TypeAdapter(ResponseOutputItem).validate_python(item(kind))
    assert made.type == kind


@pytest.mark.parametrize("kind", OPAQUE)
def test_a_conforming_item_of_each_kind_passes_whole_and_strict_takes_it(kind: str) -> None:
    events = whole_turn([kind, kind])
    decoded = run(events)
    frames = data_of(decoded.frames)
    strict = run(events, Validation.STRICT)
    assert strict.frames == decoded.frames
    assert decoded.payload.response["output"] == [item(kind, 0), item(kind, 1)]
    ours = [
        {name: value for name, value in frame.items() if name not in {"sequence_number", "response"}}
        for frame in frames
    ]
    theirs = [{name: value for name, value in event.items() if name != "response"} for event in events]
    assert ours == theirs
    made = accumulate(decoded.frames)
    assert [one.type for one in made.output] == [kind, kind]


@pytest.mark.parametrize("kind", ITEMS)
def test_an_item_of_each_kind_that_never_ends_is_whole_in_public(kind: str) -> None:
    events = [*opening(), events_of(kind)[0], {"type": "response.incomplete", "response": response("incomplete")}]
    decoded = run(events)
    check_public(decoded.frames)
    shown = decoded.payload.response["output"][0]
    assert (shown["type"], shown["id"]) == (kind, "item_0")
    if "status" in start_of(item(kind)):
        assert shown["status"] == "incomplete"
    with pytest.raises(WireError) as refused:
        run(events, Validation.STRICT)
    assert refused.value.diagnostic.code == "items_unfinished"


@pytest.mark.parametrize("kind", ITEMS)
def test_an_item_of_each_kind_of_which_only_the_end_came_is_whole_in_public(kind: str) -> None:
    decoded = run([*opening(), events_of(kind)[-1], {"type": "response.completed", "response": response("completed")}])
    check_public(decoded.frames)
    assert decoded.payload.response["output"] == [item(kind)]


@pytest.mark.parametrize("kind", [kind for kind in ITEMS if KINDS[kind].needs])
def test_a_finished_item_without_what_its_kind_needs_is_refused_and_mended(kind: str) -> None:
    for member, form in KINDS[kind].needs:
        events = whole_turn([kind])
        events[-2]["item"] = {**item(kind), member: 7}
        with pytest.raises(WireError) as refused:
            run(events, Validation.STRICT)
        diagnostic = refused.value.diagnostic
        assert (diagnostic.code, diagnostic.path, diagnostic.found) == ("item_invalid", f"$.item.{member}", "7")
        decoded = run(events)
        shown = decoded.payload.response["output"][0].get(member)
        assert shown is None if form.endswith("?") and form != "parts?" else not isinstance(shown, int)
        check_public(decoded.frames)
        assert run(data_of(decoded.frames), Validation.STRICT).payload.status == "completed"


@pytest.mark.parametrize("kind", OPAQUE)
def test_a_terminal_that_lists_an_item_of_no_form_is_refused(kind: str) -> None:
    for member, _ in KINDS[kind].needs:
        events = whole_turn([kind])
        events[-1]["response"]["output"] = [{**item(kind), member: 7}]
        with pytest.raises(WireError) as refused:
            run(events, Validation.STRICT)
        assert refused.value.diagnostic.code == "item_invalid"
        assert refused.value.diagnostic.path == f"$.response.output[0].{member}"


def test_a_kind_that_the_table_does_not_name_is_opaque() -> None:
    row = kind_of("hologram")
    assert (row.prefix, row.input, row.served) == ("item", None, None)
    assert takes("hologram", "reasoning")
    assert not takes("hologram", "text")
    assert takes("message", "part:audio")
    assert not takes("compaction", INPUT)
    assert (kind_of_track("refusal"), kind_of_track(INPUT)) == ("message", "")


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("function", "function_call"),
        ("custom", "custom_tool_call"),
        ("web_search", "web_search_call"),
        ("mcp", "mcp_call"),
        ("tool_search", "tool_search_call"),
        ("hologram", "mcp_call"),
    ],
)
def test_a_tool_that_was_told_without_its_item_has_one(tool: str, kind: str) -> None:
    assert kind_of_tool(tool) == kind


NEWCOMER = """
    _plain(
        "hologram_call",
        "holo",
        tool="hologram",
        tracks=_TYPED_INPUT,
        input="beam",
        stem="hologram_call_beam",
        progress=("projecting",),
        needs=(("beam", "string"),),
    ),
)
_OTHER"""

DRIVE = """
import json, sys
from pipeline.turn import Validation, decode
events = json.loads(sys.stdin.read())
body = "".join(f"data: {json.dumps(event)}\\n\\n" for event in events).encode()
for policy in Validation:
    decoded = decode([body], "responses", policy)
    print(json.dumps([json.loads(frame.data) for frame in decoded.frames]))
print(json.dumps([type(event).__name__ for event in decoded.events]))
"""


def test_adding_a_kind_touches_one_file(tmp_path: Path) -> None:
    """In a copy of the core one row is added to the table; then the kind is known from the wire to the public stream."""
    copy = tmp_path / "pipeline"
    shutil.copytree(Path(pipeline.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / "kinds" / "table.py"
    text = table.read_text(encoding="utf-8")
    before, marker, after = text.rpartition("\n)\n_OTHER")
    assert marker
    table.write_text(before + NEWCOMER + after, encoding="utf-8")
    whole = {"id": "h_0", "type": "hologram_call", "status": "completed", "beam": "ab"}
    place = {"item_id": "h_0", "output_index": 0}
    events = [
        *opening(),
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**whole, "status": "in_progress", "beam": ""},
        },
        {"type": "response.hologram_call.projecting", **place},
        {"type": "response.hologram_call_beam.delta", **place, "delta": "a"},
        {"type": "response.hologram_call_beam.delta", **place, "delta": "b"},
        {"type": "response.hologram_call_beam.done", **place, "beam": "ab"},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": response("completed", [whole])},
    ]
    result = subprocess.run(
        [sys.executable, "-c", DRIVE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        input=json.dumps(events),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    strict, lenient, told = map(json.loads, result.stdout.splitlines())
    assert strict == lenient
    assert [frame["type"] for frame in lenient] == [event["type"] for event in events]
    assert [frame.get("delta") for frame in lenient][4:6] == ["a", "b"]
    assert {"ToolStarted", "TextDelta", "ToolFinished"} <= set(told)
