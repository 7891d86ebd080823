"""What a reader gets of a turn: its text in blocks, and lines about what happened around it.

Text is the model's, verbatim, and only ever in `text` and `separator`. Everything that we say ourselves is a field of its own, in a
block's markers:

- `kind`: `reasoning` (text of that track), `tool`, `status`, `refusal`, `note` (such blocks have no text); absent for the answer's text.
- `note`: a line to show behind the block's text: plain text, no Markdown.
- `boundary`: what stands between this block's text and the text before it, where a hidden tool or a new message lies between them.
- `suppressed`: the text is given up on purpose, for the `reason` beside it: recorded, never shown.

Text is given out before everything that is shown or happens after it: a tool, a status, the end. The end of a call or of an item gives
nothing out by itself: what comes next does. For where the turn fails, the adapter ends what is open, and by that end alone nobody
knows yet that the policy for failures decides about the text.
"""

from dataclasses import replace

from pipeline.assemble.text import Assembler, Numbers
from pipeline.events import Status, ToolFinished, ToolStarted, TurnCancelled, TurnCompleted, TurnFailed
from pipeline.graphemes import boundary, shortened
from pipeline.output import Block
from pipeline.settings import StreamSettings

BOUNDARIES = {"none": "", "space": " ", "newline": "\n", "paragraph": "\n\n"}
TOOL_SIGN = "🔧"
STATUS_SIGN = "⚙️"
NOTE_SIGN = "⚠️"
_BRINK = 256  # near the bound of the output, so much is held back, to cut no character in two
_DONE = "completed"

# Marks within a text, signs of life, what a child tells that runs beside, remarks about the stream itself: before these nothing is given
# out, and no line tells of them. Every other status comes between texts.
SILENT = frozenset(
    {
        "annotation", "available_commands_update", "child_ended", "child_progress", "child_started", "config_option_update",
        "current_mode_update", "duplicate", "idle", "ignored", "in_progress", "input_finished", "input_started", "item", "item_finished",
        "keepalive", "malformed", "metadata", "mismatch", "part_finished", "part_started", "queued", "session_info_update", "signature", "unknown",
        "upstream_started", "usage", "usage_update",
    }
)  # fmt: skip
# These end what came before them, and tell a reader nothing.
_UNTOLD = frozenset({"item_started", "held", "unnamed"})


def failure_note(code: str) -> str:
    """What a reader is told of a turn that failed."""
    return f"{NOTE_SIGN} This answer could not be finished ({code})."


class Answer:
    """The blocks of one turn, in order. Every method returns the blocks that it finished."""

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._numbers = Numbers()
        self._text = Assembler(settings, self._numbers)
        self._reasoning = Assembler(settings, self._numbers)
        self._reasoning.markers = {"kind": "reasoning"}
        self._refusal: list[str] = []
        self._item: int | None = None
        self._last = ""  # the delta of the text that came last
        self._apart = False  # a hidden tool or a new message lies before the next text
        self._boundary = ""  # what the next block is told about it
        self._thought: tuple[int, int] | None = None
        self._left = settings.max_output_chars or None  # characters that may still be shown; None without a bound
        self._brink = ""
        self._names: dict[str, str] = {}  # of the calls that were told, by call id
        self._broken: set[str] = set()  # those of which a bad end was told
        self._parted = False  # a call has ended since the last text: what is held goes out before the next
        self._late: list[str] = []  # lines of such ends, which stand behind the text that is held

    @property
    def blocks(self) -> int:
        """How many blocks were made."""
        return self._numbers.next

    @property
    def wants_idle_after_ms(self) -> int | None:
        """After how long a silence an idle event is wanted; None while too little text is held."""
        return self._text.wants_idle_after_ms or self._reasoning.wants_idle_after_ms

    def text(self, text: str, item: int) -> list[Block]:
        """Add a delta of the answer's text."""
        if not text:
            return []
        blocks = self._reasoning.flush(final=True) if self._thought is not None and self._reasoning.held else []
        if self._parted:
            blocks += self._part()
        if item != self._item:
            blocks += self._message(item)
        if self._apart:
            self._bound(text)
        self._last = text
        if self._left is None:
            made = self._text.push(text)
            return blocks + self._named(made) if made else blocks
        return blocks + self._bounded(text)

    def reasoning(self, text: str, part: tuple[int, int]) -> list[Block]:
        """Add a delta of one part of the reasoning; the text before it goes out, and nothing comes of it unless it is shown."""
        if not text:
            return []
        is_shown = self._settings.reasoning != "hidden"
        blocks = self._reasoning.flush(final=True) if is_shown and part != self._thought else []
        self._thought = part
        if self._parted:
            blocks += self._part()
        if self._text.held or self._brink:
            blocks += self._flush_text(final=False)
        return blocks + self._reasoning.push(text) if is_shown else blocks

    def refusal(self, text: str) -> list[Block]:
        """Add a delta of a refusal; it is shown as one line at the next flush, since it is no text of the answer."""
        blocks = self._part() if self._parted else []
        self._refusal.append(text)
        return blocks

    def idle(self) -> list[Block]:
        """Give out what is held, when it is enough for a message."""
        blocks = self._named(self._text.idle()) + self._reasoning.idle()
        return blocks if self._is_held else blocks + self._lines()

    def flush(self, *, final: bool = False) -> list[Block]:
        """Give out what is held; see `Assembler.flush` for what waits when it is not final."""
        blocks = self._reasoning.flush(final=final) if self._reasoning.held else []
        if self._text.held or self._brink:
            blocks += self._flush_text(final=final)
        if self._refusal:
            blocks.append(self._line("refusal", "".join(self._refusal)))
            self._refusal = []
        return blocks + self._lines()

    def tool(self, event: ToolStarted | ToolFinished) -> list[Block]:
        """A tool starts or ends: the text before it goes out first; its start is told, and an end that is not as it should be."""
        is_told = self._settings.tool_lines != "none"
        if isinstance(event, ToolStarted):
            blocks = self.flush()
            self._apart, self._parted = self._stands_apart, False
            if is_told and event.call_id not in self._names:
                self._names[event.call_id] = event.name
                blocks.append(self._line("tool", f"{TOOL_SIGN} {event.name}"))
            return blocks
        if is_told and event.status != _DONE and event.call_id not in self._broken:
            self._broken.add(event.call_id)
            self._late.append(f"{TOOL_SIGN} {self._names.get(event.call_id, event.call_id)}: {event.status}")
        self._parted = True
        return [] if self._is_held else self._lines()

    def status(self, event: Status) -> list[Block]:
        """Something happened: the text before it goes out first, unless it happened within the text."""
        if event.name in SILENT:
            return []
        blocks = self.flush()
        if self._settings.status_lines == "none" or event.name in _UNTOLD:
            return blocks
        detail = f": {event.detail.strip()}" if isinstance(event.detail, str) and event.detail.strip() else ""
        line = shortened(f"{event.name.replace('_', ' ')}{detail}", self._settings.max_status_chars)
        return [*blocks, self._line("status", f"{STATUS_SIGN} {line}")]

    def end(self, event: TurnCompleted | TurnFailed | TurnCancelled) -> list[Block]:
        """The turn's end: what is held goes out, as the policy for its kind of end says."""
        if isinstance(event, TurnCompleted):
            return self.flush(final=True)
        if isinstance(event, TurnFailed):
            policy, reason, note = self._settings.on_failure, "failed", failure_note(event.error.code)
        else:
            policy, reason, note = self._settings.on_cancel, "cancelled", f"{NOTE_SIGN} This answer was cancelled."
        if policy == "suppress":
            self._suppress(reason)
        blocks = self.flush(final=True)
        if policy != "note":
            return blocks
        if blocks and not blocks[-1].markers.keys() & {"kind", "note", "suppressed"}:
            last = blocks[-1]
            return [*blocks[:-1], replace(last, markers={**last.markers, "note": note})]
        return [*blocks, self._line("note", note)]

    # -- shared

    def _flush_text(self, *, final: bool) -> list[Block]:
        brink, self._brink = self._brink, ""
        blocks = self._push(brink) if brink else []
        return blocks + self._named(self._text.flush(final=final))

    @property
    def _is_held(self) -> bool:
        """Whether anything waits that a late line must stand behind."""
        return bool(self._text.held or self._brink or self._reasoning.held or self._refusal)

    def _part(self) -> list[Block]:
        """Give out what was held when a call ended, and set what comes now apart from it."""
        blocks = self.flush()
        self._apart, self._parted = self._apart or self._stands_apart, False
        return blocks

    def _lines(self) -> list[Block]:
        """The lines that waited for the text before them."""
        lines, self._late = self._late, []
        return [self._line("tool", line) for line in lines]

    def _line(self, kind: str, note: str) -> Block:
        """A block without text, for a line of our own."""
        return Block(ordinal=self._numbers.take(), text="", markers={"kind": kind, "note": note})

    def _named(self, blocks: list[Block]) -> list[Block]:
        """The boundary belongs to the first of the blocks behind it."""
        if blocks and self._boundary:
            first = blocks[0]
            blocks[0] = replace(first, markers={**first.markers, "boundary": self._boundary})
            self._boundary = ""
        return blocks

    def _message(self, item: int) -> list[Block]:
        """Another message begins: no text is glued to the one before it."""
        first, self._item = self._item is None, item
        if first:
            return []
        blocks = self.flush()
        self._apart = self._apart or self._stands_apart
        return blocks

    @property
    def _stands_apart(self) -> bool:
        """Whether there is a text before this place, and all of it is out."""
        return self._last != "" and not self._text.holds_text

    def _bound(self, text: str) -> None:
        """Set the boundary, unless white space separates the texts already."""
        self._apart = False
        boundary_text = BOUNDARIES[self._settings.hidden_boundary]
        if not boundary_text or text[0].isspace():
            return
        tail = self._last[-1]
        if tail.isspace() if boundary_text == " " else tail == "\n":
            return
        self._boundary = boundary_text

    def _suppress(self, reason: str) -> None:
        for assembler in (self._text, self._reasoning):
            assembler.markers = {**assembler.markers, "suppressed": True, "reason": reason}

    def _push(self, text: str) -> list[Block]:
        """Add text of a bounded output."""
        self._left = (self._left or 0) - len(text)
        return self._named(self._text.push(text))

    def _bounded(self, text: str) -> list[Block]:
        """Add text up to the bound of the output; what is beyond it is kept as suppressed blocks, and a note says so once."""
        left = self._left or 0
        if "suppressed" in self._text.markers:
            return self._named(self._text.push(text))
        self._brink += text
        if len(self._brink) <= left:
            ready = len(self._brink) - _BRINK if left - len(self._brink) < _BRINK else len(self._brink)
            if ready <= 0:
                return []
            shown, self._brink = self._brink[:ready], self._brink[ready:]
            return self._push(shown)
        cut = left and (boundary(self._brink, left) or left)
        shown, rest = self._brink[:cut], self._brink[cut:]
        self._brink = ""
        blocks = self._push(shown) if shown else []
        blocks += self._flush_text(final=True)
        bound = self._settings.max_output_chars
        blocks.append(
            self._line("note", f"{NOTE_SIGN} This answer is longer than {bound} characters; the rest is not shown.")
        )
        self._suppress("max_output_chars")
        return blocks + self._text.push(rest)
