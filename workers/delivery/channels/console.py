"""The console: one line of JSON for each part, appended to a file in one write, or the text itself on standard output.

Capability none: a line cannot be taken back, and nobody asks a terminal what it showed. An attempt whose write was begun and
not confirmed stays unknown.
"""

import os
import select
from pathlib import Path

import msgspec

from ledger.parts import PartRecord, Verdict
from workers.config import TargetConfig
from workers.delivery.channels.contract import Message
from workers.delivery.gate import Gate, GateClosedError
from workers.delivery.outcomes import Capability, Outcome, lost, not_sent
from workers.delivery.terms import Terms

STDOUT = 1
TERMS = Terms()


class Console:
    """Writes to one file, or to standard output for the path `-`."""

    terms = TERMS
    capability = Capability.NONE

    def __init__(self, config: TargetConfig) -> None:
        self._path = config.path

    def chat_of(self, part: PartRecord) -> str:  # noqa: ARG002 - one terminal
        """There is nothing to tell apart."""
        return ""

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Append the part in one write."""
        line = message.part.body.encode() if self._path == "-" else line_of(message)
        return append(self._path, line, gate)

    async def close(self) -> None:
        """Nothing is kept open."""


def line_of(message: Message, **more: str) -> bytes:
    """One line of JSON that tells of an attempt."""
    part = message.part
    line = {
        "id": part.webhook_id,
        "delivery": part.id,
        "attempt": message.attempt,
        "at": message.at,
        "session": part.session,
        "turn": part.turn,
        "block": part.block,
        "part": part.part,
        "target": part.target,
        **more,
        "text": part.body,
    }
    return msgspec.json.encode(line) + b"\n"


def append(path: str, line: bytes, gate: Gate) -> Outcome:
    """Write a line at the end of a file in one write, or on standard output for the path `-`."""
    try:
        handle = STDOUT if path == "-" else _open(path)
    except OSError as error:
        return not_sent("cannot_open", str(error))
    try:
        return _write(handle, line, gate)
    finally:
        if handle != STDOUT:
            os.close(handle)


def _open(path: str) -> int:
    return os.open(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _write(handle: int, line: bytes, gate: Gate) -> Outcome:
    poll = select.poll()
    poll.register(handle, select.POLLOUT)
    ready = poll.poll(0)
    if not ready or not ready[0][1] & select.POLLOUT:
        return not_sent("not_writable")  # a pipe whose reader stands still would stop the whole process
    try:
        gate.enter()
        written = os.write(handle, line)
    except GateClosedError:
        return not_sent("lease_too_short")
    except OSError as error:
        return lost("write_failed", str(error))
    if written < len(line):
        return lost("cut_short", f"{written} of {len(line)} bytes")
    return Outcome(verdict=Verdict.SENT, reason="written")
