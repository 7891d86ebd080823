"""Asking a channel whether it has taken a part whose outcome nobody knows.

Asked only after the quarantine: until then the request may still be on its way, and "not found" means nothing. The script that acts on
the answer checks that again, by its own clock and against the attempt that stands in the record by then.
An answer that settles nothing is asked for again, with growing pauses; which is remembered in this process alone, so a successor asks at
once.
"""

from collections import OrderedDict
from dataclasses import dataclass

from ledger.backoff import Backoff
from ledger.parts import PartRecord
from ledger.states import Operation
from workers.delivery.channels.contract import reconciling
from workers.delivery.context import Context
from workers.delivery.outcomes import Found
from workers.delivery.recovery import Advance, Asked
from workers.observability import logs, metrics
from workers.runtime import entropy

REMEMBERED = 10_000
"""Parts whose unclear answers are remembered; one that is forgotten is asked for again."""


@dataclass(frozen=True, kw_only=True)
class _Unclear:
    attempt: str
    times: int
    asked: Asked


class Asking:
    """The questions of one partition's owner."""

    def __init__(self, context: Context) -> None:
        self._context = context
        config = context.config.delivery
        self._backoff = Backoff(first_ms=config.backoff_base_ms, cap_ms=config.backoff_max_ms)
        self._unclear: OrderedDict[str, _Unclear] = OrderedDict()

    def so_far(self, part: PartRecord) -> Asked:
        """What was asked for the part's last attempt, in Redis TIME."""
        known = self._unclear.get(part.id)
        return known.asked if known is not None and known.attempt == part.attempt else Asked()

    async def ask(self, part: PartRecord, *, now_ms: int) -> Advance | None:
        """Ask once; what follows from the answer, None when it settles nothing."""
        channel = reconciling(self._context.channels.get(part.target))
        delivery = self._context.config.delivery
        found = Found.UNCLEAR
        if channel is not None:
            found = await channel.find(part, at=now_ms, timeout_s=delivery.send_deadline_ms / 1000)
        metrics.ASKED.labels(channel=part.channel, found=found).inc()
        if found is Found.UNCLEAR:
            self._remember(part, now_ms)
            return None
        self._unclear.pop(part.id, None)
        return Advance(
            operation=Operation.FOUND if found is Found.YES else Operation.NOT_FOUND,
            note="the channel has it" if found is Found.YES else "the channel has it not",
            quarantine_ms=delivery.quarantine_ms,
        )

    def _remember(self, part: PartRecord, now_ms: int) -> None:
        before, known = self.so_far(part), self._unclear.pop(part.id, None)
        times = known.times + 1 if known is not None and known.attempt == part.attempt else 1
        wait_ms = self._backoff.wait_ms(times, chance=entropy.jitter(0, 1))
        asked = Asked(since=before.since or now_ms, again_at=now_ms + max(wait_ms, 1))
        self._unclear[part.id] = _Unclear(attempt=part.attempt, times=times, asked=asked)
        if len(self._unclear) > REMEMBERED:
            self._unclear.popitem(last=False)
        logs.bind(delivery=part.id).info("asked_in_vain", times=times, wait_ms=wait_ms)
