"""A turn on a stage: an upstream's events and those of whoever answers calls come in by turns, and the frames are kept."""

from typing import Any

from pipeline.events import Event, Status, ToolFinished, ToolStarted, TurnStarted
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.output import Block, Frame
from pipeline.turn import Turn, Validation
from tests.pipeline.streams import TURN, Json, body, data_of, opening, response

STARTED = TurnStarted(seq=0, at=1_700_000_000_000, fold=1, runtime="main", wire="responses", turn=TURN, session="s")


def started(**members: Any) -> TurnStarted:
    return TurnStarted(
        **{name: getattr(STARTED, name) for name in ("seq", "at", "fold", "runtime", "wire", "turn", "session")}
        | members
    )


class Stage:
    """One turn whose tools are routed as given."""

    def __init__(self, tools: dict[str, str], *, strict: bool = False, muted: bool = False, **members: Any) -> None:
        policy = Validation.STRICT if strict else Validation.LENIENT
        self.turn = Turn(TURN, validation=policy, relay=not muted)
        self.frames: list[Frame] = []
        self.blocks: list[Block] = []
        self.events: list[tuple[Event, str]] = []
        self._stamp = Stamp()
        self._adapter = WIRES["responses"](stamp=self._stamp)
        self._asides = 0
        self.push(started(tools=tools, **members))

    def push(self, event: Event, producer: str = "ingest") -> list[Json]:
        made = self.turn.push(event, producer)
        self.events.append((event, producer))
        self.frames += made.frames
        self.blocks += made.blocks
        return data_of(made.frames)

    def upstream(self, *events: Json) -> list[Json]:
        frames: list[Json] = []
        for event in self._adapter.feed(body(events)):
            frames += self.push(event)
        return frames

    def open(self) -> list[Json]:
        return self.upstream(*opening())

    def complete(self, output: list[Json] | None = None) -> list[Json]:
        return self.upstream({"type": "response.completed", "response": response("completed", output)})

    def tool_started(
        self, call_id: str, *, item: int = 0, name: str = "t", kind: str = "mcp", by: str = "tools"
    ) -> list[Json]:
        return self.push(ToolStarted(seq=self._aside(), at=0, item=item, call_id=call_id, name=name, kind=kind), by)

    def tool_finished(
        self, call_id: str, output: Any = None, *, status: str = "completed", item: int = 0, text: str | None = None, by: str = "tools"
    ) -> list[Json]:  # fmt: skip
        event = ToolFinished(
            seq=self._aside(), at=0, item=item, call_id=call_id, status=status, input=text, output=output
        )
        return self.push(event, by)

    def tool_status(self, name: str, item: int | None, *, wire: Json | None = None, by: str = "tools") -> list[Json]:
        return self.push(Status(seq=self._aside(), at=0, name=name, item=item, wire=wire), by)

    def _aside(self) -> int:
        self._asides += 1
        return self._asides - 1


def told(frames: list[Json]) -> list[str]:
    """Frames in short: type without its beginning, and output index."""
    return [
        frame["type"].removeprefix("response.") + (f" {frame['output_index']}" if "output_index" in frame else "")
        for frame in frames
    ]
