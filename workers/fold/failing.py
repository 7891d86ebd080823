"""The last frames of a turn that foldline itself ends without its state machine, because the machine cannot be trusted.

Used where feeding the turn once more is what must not happen: its rebuild differed from what clients have read, its own
events made the fold raise, or its owners died of it. What was committed before stands; these frames only say that it is over.
"""

from typing import Any

import msgspec

from pipeline.output import Frame, Output

MESSAGES = {
    "fold_error": "The output of this turn could not be made from its events.",
    "fold_diverged": "This turn was folded again with another result than what was already read; it is not continued.",
    "fold_quarantined": "The processes that folded this turn were lost again and again; it is set aside.",
    "log_trimmed": "Events of this turn are no longer in the log, so that it cannot be continued.",
}


def failure(turn: str, code: str, *, next_number: int) -> Output:
    """The frames that end the turn by this name, from the next free number on; ``created`` first where nothing was sent."""
    output = Output()
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
