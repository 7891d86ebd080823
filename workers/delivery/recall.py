"""What this process sent lately: so that a server that forgot it again is told, instead of having it sent a second time.

A server that does not write through loses its last moments when its machine dies. A part whose intent and receipt were among them stands
there as if nobody had ever touched it. The process that made the attempt knows better, as long as it lives: it writes the intent and the
outcome of that very attempt again, without a socket, and says that this was necessary.
What it cannot know is what another process sent, or one that died too: there only an intent that is durable before the send helps.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

from ledger.parts import PartRecord, Verdict
from ledger.states import State
from workers.delivery.outcomes import Outcome, lost

REMEMBERED = 20_000
"""Attempts of one process, the newest; far more than any server's unwritten last moments hold."""


@dataclass(frozen=True)
class Recalled:
    """One attempt of ours, the part's last; without an outcome it broke off within this process."""

    attempt: str
    body_hash: str
    outcome: Outcome | None

    @property
    def fact(self) -> Outcome:
        """What is known of it."""
        return self.outcome or lost("receipt_lost")


class Recall:
    """The memory of one process."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, Recalled] = OrderedDict()

    def begin(self, part: PartRecord, attempt: str) -> None:
        """An attempt has its intent."""
        self._made.pop(part.id, None)
        self._made[part.id] = Recalled(attempt, part.body_hash, None)
        if len(self._made) > REMEMBERED:
            self._made.popitem(last=False)

    def end(self, part_id: str, attempt: str, outcome: Outcome) -> None:
        """It came out so. What is proven not to have been sent may be forgotten."""
        made = self._made.get(part_id)
        if made is None or made.attempt != attempt:
            return
        if outcome.verdict is Verdict.RETRY and outcome.proven:
            del self._made[part_id]
        else:
            self._made[part_id] = replace(made, outcome=outcome)

    def forget(self, part_id: str) -> None:
        """Nothing of it matters any more."""
        self._made.pop(part_id, None)

    def missing_in(self, part: PartRecord, token: str) -> Recalled | None:
        """Our last attempt of the part, if its record does not know it, or not how it came out; None when nothing is missing."""
        made = self._made.get(part.id)
        if made is None:
            return None
        if part.state is State.SENDING and part.attempt == made.attempt and part.token == token:
            return made
        unknown_to_it = made.attempt not in part.attempts_made
        return made if unknown_to_it and part.state in {State.PENDING, State.RETRY} else None
