"""What the readers of a turn's stream have and no block carries, given out where no machine is there to do it.

Blocks carry the text of the frames a little later: what waits for a place to be cut is held. Both are stored, so what is between them
follows from what is stored, whatever a fold would make of the log by now: the text of the frames begins with the text of the blocks, and
the rest was held. Nothing is spliced, since not a character is given out that was not read already.
"""

import re
from typing import Any

import msgspec

from ledger.records import BlockRecord
from pipeline.assemble.answer import failure_note
from pipeline.assemble.text import Assembler, Numbers
from pipeline.output import Block
from pipeline.settings import StreamSettings

TEXT, REASONING, REFUSAL = "", "reasoning", "refusal"
"""What a block is of, as its marker `kind` says; text has none."""

KINDS = {
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    "response.output_text.delta": TEXT,
    "response.refusal.delta": REFUSAL,
}
_FRAME = re.compile(rf"^event: ({'|'.join(map(re.escape, KINDS))})\ndata: (.*)$", re.MULTILINE)


class _Delta(msgspec.Struct):
    delta: str = ""


class Told:
    """A turn as its readers know it: the text of its frames, and its blocks. Both are added in order."""

    def __init__(self) -> None:
        self.is_clear = True
        """Whether the texts of frames and blocks fit, so that what was held can be told apart."""
        self._read: dict[str, list[str]] = {REASONING: [], TEXT: [], REFUSAL: []}
        self._carried: dict[str, list[str]] = {REASONING: [], TEXT: [], REFUSAL: []}
        self._shown: list[str] = []

    def frames(self, sse: str) -> None:
        """Add frames of the public stream."""
        for event, data in _FRAME.findall(sse):
            self._read[KINDS[event]].append(msgspec.json.decode(data, type=_Delta).delta)

    def block(self, block: BlockRecord | None) -> None:
        """Add a block; None: one whose record has expired, behind which no text can be given its place."""
        if block is None:
            self.is_clear = False
            return
        markers = msgspec.json.decode(block.markers or "{}")
        kind = markers.get("kind", TEXT)
        text = block.text + block.separator
        if kind in self._carried:
            self._carried[kind].append(markers.get("note", "") if kind == REFUSAL else text)
        if kind == TEXT and not markers.get("suppressed"):
            self._shown.append(text)

    @property
    def answer(self) -> str:
        """The text of the blocks that was shown."""
        return "".join(self._shown)

    @property
    def chars(self) -> int:
        """How long the answer's text is; frames or blocks may be ahead."""
        return max(sum(map(len, of[TEXT])) for of in (self._read, self._carried))

    def rests(self) -> list[tuple[str, str, str]]:
        """Of each kind, in the order in which it is given out, the text that blocks carry and what was read beyond it.

        Blocks may be ahead of frames, which wait for a tool's answer; then nothing was read that they do not carry.
        """
        rests: list[tuple[str, str, str]] = []
        for kind, pieces in self._carried.items():
            read, carried = "".join(self._read[kind]), "".join(pieces)
            if read.startswith(carried):
                rests.append((kind, carried, read[len(carried) :]))
            elif not carried.startswith(read):
                self.is_clear = False
        return [rest for rest in rests if rest[2]] if self.is_clear else []


def ending(told: Told, settings: StreamSettings, code: str, *, number: int) -> list[Block]:
    """The last blocks of a turn that fails by this name, from `number` on: what was held, by the policy for failures, and its note."""
    blocks: list[Block] = []
    bound = settings.max_output_chars
    reason = "failed" if settings.on_failure == "suppress" else ""
    if not reason and bound and told.chars > bound:
        reason = "max_output_chars"  # when it was crossed, all before it was given out; nothing is shown behind it
    for kind, carried, rest in told.rests():
        if kind == REFUSAL:
            note = {"kind": REFUSAL, "note": rest}
            blocks.append(Block(ordinal=number + len(blocks), text="", markers=note))
        elif kind == TEXT or settings.reasoning != "hidden":
            markers: dict[str, Any] = {"kind": kind} if kind else {}
            if reason:
                markers |= {"suppressed": True, "reason": reason}
            blocks += _cut(carried, rest, settings, markers, number + len(blocks))
    if settings.on_failure != "note":
        return blocks
    line = failure_note(code)
    if blocks and not blocks[-1].markers:
        last = blocks.pop()
        return [*blocks, Block(last.ordinal, last.text, last.opener, last.closer, last.separator, {"note": line})]
    return [*blocks, Block(ordinal=number + len(blocks), text="", markers={"kind": "note", "note": line})]


def _cut(carried: str, rest: str, settings: StreamSettings, markers: dict[str, Any], number: int) -> list[Block]:
    """The rest of a text in blocks; a fence that was open goes on."""
    numbers = Numbers()
    assembler = Assembler(settings, numbers)
    assembler.push(carried)
    assembler.flush(final=True)
    assembler.markers = markers
    numbers.next = number
    return assembler.push(rest) + assembler.flush(final=True)
