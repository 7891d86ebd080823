"""The end of a turn that foldline itself ends by name, because its events cannot be fed any further.

Where the turn could be folded again up to there, its machine ends it, and what it holds goes out by the turn's policy for failures: so at
an event that cannot be folded, and at one that its owners were lost at. Where it could not (the second fold differed from what clients
have read, entries are gone, or folding it again is what kills), what was committed stands, these frames say that it is over, and
`remainder` gives out the text that was read and not delivered.
"""

from typing import Any

import msgspec

from pipeline.codec import EventRefused, decode
from pipeline.events import ErrorInfo, TurnFailed, TurnStarted
from pipeline.output import Block, Frame, Output
from pipeline.settings import StreamSettings, resolve

MESSAGES = {
    "fold_error": "The output of this turn could not be made from its events.",
    "fold_diverged": "This turn was folded again with another result than what was already read; it is not continued.",
    "fold_quarantined": "The processes that folded this turn were lost again and again; it is set aside.",
    "log_trimmed": "Events of this turn are no longer in the log, so that it cannot be continued.",
}
BY_MACHINE = frozenset({"fold_error", "fold_quarantined"})
"""The failures at which a machine may stand that ends the turn."""


def terminal(code: str) -> TurnFailed:
    """What the machine is ended by. It stands in no log: the record's error and ``quarantined`` say where it was pushed."""
    error = error_of(code)
    return TurnFailed(seq=0, at=0, error=ErrorInfo(code=error["code"], message=error["message"]))


def settings_of(started: str) -> StreamSettings:
    """The settings that stand in a turn's frozen first event."""
    try:
        event = decode(started)
    except EventRefused:
        return resolve({})
    return resolve(event.settings if isinstance(event, TurnStarted) else {})


def failure(turn: str, code: str, *, next_number: int, blocks: list[Block]) -> Output:
    """What ends the turn by this name, from the next free number on: `created` first where nothing was sent, and these last blocks."""
    output = Output([], blocks)
    if next_number == 0:
        output.frames.append(_frame("response.created", 0, _response(turn, "in_progress", None)))
    number = next_number + len(output.frames)
    output.frames.append(_frame("response.failed", number, _response(turn, "failed", error_of(code))))
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
