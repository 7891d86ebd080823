"""Every runtime behaves the same: one conversation as main, subagent and acp gives the same blocks and the same messages.

Carriers are made of the registries, of runtimes and of wires: whoever adds one of either is in the suite, and no stage may ask which it is.
Frames are not compared: the public stream passes on what each upstream told in its own words.
"""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assemble import answer
from pipeline.events import FOLD_VERSION, TERMINALS, Event, RuntimeName, Status, TextDelta, TurnStarted
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.output import Block
from pipeline.project.parts import Part
from pipeline.project.registry import CHANNELS, profile_of, project
from pipeline.settings import POLICIES
from pipeline.turn import Turn
from tests.contract.speakers import SPEAKERS, End, Say, Step, Use
from workers.ingest.ending import last_word, unfinished

TURN = f"0-{0:024x}"
RUNTIMES: tuple[RuntimeName, ...] = get_args(RuntimeName)
CARRIERS = [
    (runtime, wire)
    for runtime in RUNTIMES
    for wire in WIRES
    if wire == "canonical" or (wire == "acp") == (runtime == "acp")
]
each_carrier = pytest.mark.parametrize(("runtime", "wire"), CARRIERS, ids=str)
SMALL: dict[str, Any] = {"min_chars": 20, "max_chars": 60}


class Told:
    """What came of a conversation: blocks, the messages of every channel, how the turn stands."""

    def __init__(self, turn: Turn, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.status = turn.status
        self.code = (turn.error or {}).get("code")
        self.parts: dict[str, list[Part]] = {
            channel: [part for block in blocks for part in project(block, profile_of(channel, name="x", turn=TURN))]
            for channel in CHANNELS
        }

    @property
    def text(self) -> str:
        return "".join(block.text + block.separator for block in self.blocks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and (self.blocks, self.status, self.parts) == (
            other.blocks,
            other.status,
            other.parts,
        )

    __hash__ = None  # type: ignore[assignment]  # compared, never kept

    def __repr__(self) -> str:
        return f"{self.status} {self.code} {self.blocks}"


def carry(
    runtime: str,
    wire: str,
    steps: list[Step],
    *,
    end: End = "completed",
    cancelled: bool = False,
    idle_at: int | None = None,
    **settings: Any,
) -> Told:
    """Lead a conversation through adapter and turn, as ingest and fold do. `idle_at`: a silence behind so many characters."""
    adapter = WIRES[wire](stamp=Stamp(at=1))
    turn = Turn(TURN)
    blocks: list[Block] = []
    said = 0

    def push(event: Event) -> None:
        nonlocal said
        if cancelled and isinstance(event, TERMINALS):
            event = last_word(event, failure=None, cancelled=True)
        blocks.extend(turn.push(event).blocks)
        if isinstance(event, TextDelta) and event.track == "text":
            said += len(event.text)
            if said == idle_at:
                blocks.extend(turn.push(Status(seq=0, at=1, name="idle")).blocks)

    push(
        TurnStarted(
            seq=0, at=1, fold=FOLD_VERSION, runtime=runtime, wire=wire, turn=TURN, session="s",  # type: ignore[arg-type]  # one of the three
            settings={**SMALL, **settings},
        )
    )  # fmt: skip
    for frame in SPEAKERS[wire](steps, end):
        for event in adapter.feed(frame):
            push(event)
    for event in adapter.close():
        push(event)
    if not turn.ended:  # the canonical wire adds nothing of its own at an end
        push(unfinished(9, 1))
    return Told(turn, blocks)


STORY: list[Step] = [
    Say(("I will look. ", "One mo", "ment.")),
    Use("search", {"q": "weather"}),
    Say(("It is sunny in Rome.\n\nTomorrow it rains, from ", "noon on.\n\n```py\nprint(1)\n", "```\nTake care.")),
]


STORIES = {"whole": STORY, "torn": [*STORY[:-1], replace(STORY[-1], is_open=True)]}
each_story = pytest.mark.parametrize("story", STORIES)


def test_every_wire_speaks_and_every_runtime_is_carried() -> None:
    assert SPEAKERS.keys() == WIRES.keys()
    assert {runtime for runtime, _ in CARRIERS} == set(RUNTIMES)
    assert {wire for _, wire in CARRIERS} == set(WIRES)


@each_carrier
def test_a_conversation_with_a_tool_gives_the_same_everywhere(runtime: str, wire: str) -> None:
    told = carry(runtime, wire, STORY)
    assert told == carry("main", "responses", STORY)
    assert told.status == "completed"
    assert told.text == "".join(step.text for step in STORY if isinstance(step, Say))
    assert len(told.blocks) > 3


@each_carrier
@each_story
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", ["cut", "cancelled"])
def test_an_end_before_the_end_gives_the_same_everywhere(
    runtime: str, wire: str, story: str, end: str, policy: str
) -> None:
    steps = STORIES[story]
    changes: dict[str, Any] = {"end": "cut", "cancelled": end == "cancelled", "on_failure": policy, "on_cancel": policy}
    told = carry(runtime, wire, steps, **changes)
    assert told == carry("main", "responses", steps, **changes)
    assert told.status == ("cancelled" if end == "cancelled" else "failed")
    _check_held(told, policy)


@each_carrier
@each_story
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lines", ["none", "summary"])
def test_an_upstreams_failure_gives_the_same_everywhere_but_for_its_name(
    runtime: str, wire: str, story: str, policy: str, lines: str
) -> None:
    steps = STORIES[story]
    changes: dict[str, Any] = {"end": "failed", "on_failure": policy, "tool_lines": lines}
    told = carry(runtime, wire, steps, **changes)
    assert told.status == "failed"
    assert _unnamed(told) == _unnamed(carry("main", "responses", steps, **changes))
    _check_held(told, policy)


def _check_held(told: Told, policy: str) -> None:
    """The text that was held at the end is told of as the policy says; what went out before it is as it was."""
    *before, last = told.blocks
    assert told.text == "".join(step.text for step in STORY if isinstance(step, Say))
    assert last.text.endswith("Take care.")
    assert ("suppressed" in last.markers, "note" in last.markers) == (policy == "suppress", policy == "note")
    assert not any("suppressed" in block.markers for block in before)


def _unnamed(told: Told) -> list[Block]:
    """The blocks without the upstream's own word for its failure, which a note repeats."""
    return [
        replace(block, markers={**block.markers, "note": str(block.markers["note"]).replace(str(told.code), "…")})
        if "note" in block.markers
        else block
        for block in told.blocks
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("wire", ["acp", "chat"])
def test_a_call_that_is_open_at_a_failure_does_not_give_out_the_text_behind_it(wire: str, policy: str) -> None:
    """Where calls and text run side by side, the adapter ends the open call just before the turn fails."""
    runtime = "acp" if wire == "acp" else "main"
    steps: list[Step] = [Say(("Before. ",)), Use("search", {"q": 1}, is_open=True), Say(("Behind it.",))]
    told = carry(runtime, wire, steps, end="cut", on_failure=policy, tool_lines="summary")
    behind = next(block for block in told.blocks if block.text == "Behind it.")
    assert ("suppressed" in behind.markers) == (policy == "suppress")
    assert ("note" in {*behind.markers, *told.blocks[-1].markers}) == (policy == "note" or wire == "acp")
    assert told.text == "Before. Behind it."


@each_carrier
@pytest.mark.parametrize("lines", ["none", "summary"])
@pytest.mark.parametrize("boundary", list(answer.BOUNDARIES))
def test_a_tool_is_told_or_hidden_the_same_everywhere(runtime: str, wire: str, lines: str, boundary: str) -> None:
    steps: list[Step] = [
        Say(("Before it.",)),
        Use("search", {"q": 1}),
        Say(("After it.",)),
        Use("read", {}),
        Say(("The end.",)),
    ]
    changes: dict[str, Any] = {"tool_lines": lines, "hidden_boundary": boundary}
    assert carry(runtime, wire, steps, **changes) == carry("main", "responses", steps, **changes)


TEXTS = st.text(alphabet="ab .!\n`~#*é😀", min_size=1, max_size=90).filter(lambda text: text.strip())


@st.composite
def partitions(draw: st.DrawFn, text: str, *, border: int | None = None) -> tuple[str, ...]:
    """A text in pieces; one of their borders lies at `border`."""
    cuts = draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=12))
    if border is not None:
        cuts.add(border)
    borders = [0, *sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    return tuple(text[a:b] for a, b in zip(borders, borders[1:], strict=False))  # noqa: RUF007


@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
@settings(deadline=None, max_examples=60)
def test_for_any_partition_all_runtimes_give_the_same(texts: list[str], data: st.DataObject) -> None:
    def steps() -> list[Step]:
        made: list[Step] = []
        for number, text in enumerate(texts):
            made += [Use(f"tool{number}", {"n": number})] if number else []
            made.append(Say(data.draw(partitions(text))))
        return made

    first = carry("main", "responses", steps())
    for runtime, wire in CARRIERS:
        assert carry(runtime, wire, steps()) == first, (runtime, wire)


@given(TEXTS.filter(lambda text: len(text) > 2), st.data())
@settings(deadline=None, max_examples=40)
def test_a_silence_at_the_same_place_cuts_all_runtimes_alike(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(text) - 1))
    first = carry("main", "responses", [Say(data.draw(partitions(text, border=at)))], idle_at=at)
    for runtime, wire in CARRIERS:
        again = carry(runtime, wire, [Say(data.draw(partitions(text, border=at)))], idle_at=at)
        assert again == first, (runtime, wire)


def test_no_stage_behind_the_adapters_asks_for_the_runtime() -> None:
    """One code path: the runtime's name is read where a turn is submitted and where turns are listed, and nowhere else."""
    asking = [
        f"{path}:{node.lineno}"
        for folder in ("pipeline/fold", "pipeline/relay", "pipeline/assemble", "pipeline/project", "pipeline/turn",
                       "workers/fold", "workers/delivery")
        for path in sorted(Path(folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"runtime", "runtime_name"}
    ]  # fmt: skip
    assert asking == []
