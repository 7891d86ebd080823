"""The end of a turn that foldline itself ends by name, because its events cannot be fed any further.

Where an event made the fold raise, the machine stands, folded again up to that event: it ends the turn, and what it holds goes out by the
turn's policy for failures. Where feeding the turn once more is what must not happen, because its rebuild differed from what clients have
read or its owners died of it, there is no machine: what was committed stands, these frames say that it is over, and so does a note to
readers where the policy is to leave one. Text that was held then is in the log alone.
"""

from typing import Any

import msgspec

from pipeline.assemble.answer import failure_note
from pipeline.codec import EventRefused, decode
from pipeline.events import ErrorInfo, TurnFailed, TurnStarted
from pipeline.output import Block, Frame, Output
from pipeline.settings import resolve

MESSAGES = {
    "fold_error": "The output of this turn could not be made from its events.",
    "fold_diverged": "This turn was folded again with another result than what was already read; it is not continued.",
    "fold_quarantined": "The processes that folded this turn were lost again and again; it is set aside.",
    "log_trimmed": "Events of this turn are no longer in the log, so that it cannot be continued.",
}


BY_MACHINE = "fold_error"
"""The failure at which the machine stands."""


def terminal(code: str) -> TurnFailed:
    """What the machine is ended by. It stands in no log: the record's error and ``quarantined`` say where it was pushed."""
    error = error_of(code)
    return TurnFailed(seq=0, at=0, error=ErrorInfo(code=error["code"], message=error["message"]))


def has_note(started: str) -> bool:
    """Whether a turn's frozen first event wants readers told of a failure."""
    try:
        event = decode(started)
    except EventRefused:
        return True
    return not isinstance(event, TurnStarted) or resolve(event.settings).on_failure == "note"


def failure(turn: str, code: str, *, next_number: int, next_block: int | None) -> Output:
    """What ends the turn by this name, from the next free numbers on; ``created`` first where nothing was sent, a note unless None."""
    output = Output()
    if next_number == 0:
        output.frames.append(_frame("response.created", 0, _response(turn, "in_progress", None)))
    number = next_number + len(output.frames)
    output.frames.append(_frame("response.failed", number, _response(turn, "failed", error_of(code))))
    if next_block is not None:
        markers = {"kind": "note", "note": failure_note(code)}
        output.blocks.append(Block(ordinal=next_block, text="", markers=markers))
    return output


def error_of(code: str) -> dict[str, str]:
    """The error as the public response object and the turn's record hold it."""
    return {"code": code, "message": MESSAGES[code]}


def _response(turn: str, status: str, error: dict[str, str] | None) -> dict[str, Any]:
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": error,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }


def _frame(event: str, number: int, response: dict[str, Any]) -> Frame:
    body = {"type": event, "sequence_number": number, "response": response}
    return Frame(number=number, event=event, data=msgspec.json.encode(body))
