"""The canonical events: the only things that a runtime adapter may emit, and all that the log of a turn holds.

There are nine types and no others. Each is a frozen struct that JSON names by `type`; unknown members are refused. `item`
is the upstream's output index, `content` its content or summary index, `at` unix milliseconds, `seq` counts a producer's
events of one turn from 0 without a gap.

`wire` holds what no other member holds, so that nothing an upstream sent is lost on the way to the client. Every upstream
event becomes one or more events of which exactly one has `wire["type"]`, the upstream's own type. What the canonical
members restore (indexes, a delta, a final text) is not repeated there. Events that an adapter makes by itself, such as the
finals at the end of a stream, have no `wire["type"]`; `wire["item"]` may hold the item that they were read from.
`wire["defects"]` lists how the upstream's event broke its own protocol: `code path expected found`.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

CONTRACT_VERSION: Final = 1
FOLD_VERSION: Final = 5

Track = Literal["text", "reasoning", "summary", "refusal", "tool_input"]
RuntimeName = Literal["main", "subagent", "acp"]
Outcome = Literal["completed", "incomplete"]
Natural = Annotated[int, Meta(ge=0, le=2**53 - 1)]  # what every JSON reader, and Lua, holds exactly
Positive = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Wire = dict[str, Any] | None  # members of an upstream's JSON: any shape is possible here


class Target(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the blocks of a turn go: a channel, a name from the configuration, a recipient within it."""

    channel: str
    name: str
    recipient: str | None = None


class ErrorInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a turn failed, in the upstream's words where it has any."""

    code: str
    message: str = ""
    type: str | None = None
    param: str | None = None


class _Event(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
    tag="",
    gc=False,
):
    seq: Natural
    at: Natural


class TurnStarted(_Event, frozen=True, kw_only=True, omit_defaults=False, tag="turn_started"):
    """The turn exists: everything that configuration decides for it stands here, frozen at submit.

    A child names its `parent`, and in `parent_call` the call of the parent that its result answers, if it answers one.
    """

    contract: int = CONTRACT_VERSION
    fold: int
    runtime: RuntimeName
    wire: str
    turn: str
    session: str
    parent: str | None = None
    upstream: str | None = None
    model: str | None = None
    settings: dict[str, Any] = {}
    targets: list[Target] = []
    tools: dict[str, str] = {}
    limits: dict[str, Positive] = {}
    round: Natural = 0
    response: dict[str, Any] | None = None
    parent_call: str | UnsetType = UNSET


class TextDelta(_Event, frozen=True, kw_only=True, tag="text_delta"):
    """Text arrived in a slot, verbatim."""

    item: Natural
    content: Natural
    track: Track
    text: str
    wire: Wire = None


class BlockFinal(_Event, frozen=True, kw_only=True, tag="block_final"):
    """The final word on a slot's text."""

    item: Natural
    content: Natural
    track: Track
    text: str
    wire: Wire = None


class ToolStarted(_Event, frozen=True, kw_only=True, tag="tool_started"):
    """A tool was called; its input may follow in deltas."""

    item: Natural
    call_id: str
    name: str
    kind: str
    wire: Wire = None


class ToolFinished(_Event, frozen=True, kw_only=True, tag="tool_finished"):
    """A tool's call is whole: `input` is authoritative, `output` is there where somebody executed it."""

    item: Natural
    call_id: str
    status: str
    input: str | None = None
    output: Any = None
    wire: Wire = None


class Status(_Event, frozen=True, kw_only=True, tag="status"):
    """Anything else that happened; what it is called is in `name`."""

    name: str
    item: Natural | None = None
    content: Natural | None = None
    detail: Any = None
    wire: Wire = None


class TurnCompleted(_Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The turn ended by itself, whole or cut short."""

    outcome: Outcome
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    wire: Wire = None


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The turn ended in an error; what it produced before stands."""

    error: ErrorInfo
    usage: dict[str, Any] | None = None
    wire: Wire = None


class TurnCancelled(_Event, frozen=True, kw_only=True, tag="turn_cancelled"):
    """The turn was ended by a person or by an operator's rule."""

    reason: str
    usage: dict[str, Any] | None = None
    wire: Wire = None


Event = (
    TurnStarted
    | TextDelta
    | BlockFinal
    | ToolStarted
    | ToolFinished
    | Status
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
)
Terminal = TurnCompleted | TurnFailed | TurnCancelled
TERMINALS: Final = (TurnCompleted, TurnFailed, TurnCancelled)
EVENT_TYPES: Final = (
    "turn_started",
    "text_delta",
    "block_final",
    "tool_started",
    "tool_finished",
    "status",
    "turn_completed",
    "turn_failed",
    "turn_cancelled",
)
