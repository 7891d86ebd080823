"""Named places where a process dies or freezes on purpose, so that tests can stand at every one of them.

``FOLDLINE_FAILPOINTS`` is a comma-separated list of ``name=action`` with the actions ``exit`` and ``pause``, each with an
optional ``@n`` for the n-th time the point is reached: ``fold.before_commit=exit@3``. Without the variable a point costs one
look-up in an empty dictionary. ``exit`` leaves at once, with the point's own code and without any clean-up; ``pause`` stops the
whole process by SIGSTOP until somebody sends SIGCONT, and happens once.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "FOLDLINE_FAILPOINTS"

FAILPOINTS: dict[str, int] = {
    "ingest.after_take": 10,
    "ingest.after_claim": 11,
    "ingest.before_publish": 12,
    "ingest.after_publish": 13,
    "ingest.before_open": 14,
    "ingest.after_open": 15,
    "ingest.mid_stream": 16,
    "ingest.before_terminal": 17,
    "ingest.after_terminal": 18,
    "fold.after_raise": 40,
    "fold.after_rebuild": 41,
    "fold.after_adopt": 42,
    "fold.after_take": 43,
    "fold.before_commit": 44,
    "fold.after_commit": 45,
    "fold.after_hint": 46,
    "fold.before_release": 47,
    "delivery.after_raise": 70,
    "delivery.after_take": 71,
    "delivery.before_plan": 72,
    "delivery.after_plan": 73,
    "delivery.before_intent": 74,
    "delivery.after_intent": 75,
    "delivery.after_answer": 76,
    "delivery.after_receipt": 77,
    "gateway.before_idempotency": 100,
    "gateway.after_idempotency": 101,
    "gateway.before_submit": 102,
    "gateway.after_submit": 103,
    "gateway.mid_stream": 104,
    "gateway.before_publish": 105,
    "gateway.after_publish": 106,
}
"""Every point and the exit code that is its own."""


class UnknownFailpointError(ValueError):
    """The variable names a point or an action that does not exist; the process refuses to start."""


@dataclass
class Armed:
    """One point that will act: what it does, at which hit, and how often it was reached."""

    action: str
    at: int
    hits: int = 0


_armed: dict[str, Armed] = {}


def parse(text: str) -> dict[str, Armed]:
    """Read the variable's value; raise UnknownFailpointError for what is not registered."""
    armed: dict[str, Armed] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, rest = part.partition("=")
        action, _, nth = rest.partition("@")
        if name not in FAILPOINTS:
            raise UnknownFailpointError(f"{VARIABLE}: no failpoint is named {name!r}")
        if action not in {"exit", "pause"} or not (nth or "1").isdigit() or int(nth or "1") < 1:
            raise UnknownFailpointError(
                f"{VARIABLE}: {name}: exit, pause, exit@N or pause@N is expected, found {rest!r}"
            )
        armed[name] = Armed(action=action, at=int(nth or "1"))
    return armed


def arm(environ: Mapping[str, str]) -> None:
    """Arm the points that the environment names; each role calls it once, at start."""
    _armed.clear()
    _armed.update(parse(environ.get(VARIABLE, "")))


def hit(name: str) -> None:
    """Stand at the point: nothing happens unless it is armed and its turn has come."""
    point = _armed.get(name)
    if point is None:
        return
    point.hits += 1
    if point.hits != point.at:
        return
    if point.action == "exit":
        os._exit(FAILPOINTS[name])
    os.kill(os.getpid(), signal.SIGSTOP)
