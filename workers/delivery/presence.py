"""Showing that something is being written: for every running turn, in every chat of its targets that can show it.

Best effort, and never a delivery: nothing of it is recorded, retried or waited for, and nothing waits for it. Two processes that show
the same for a moment do no harm. A chat whose channel asks for less of it is left alone for as long as it says.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from ledger.errors import LedgerError
from ledger.records import SHADOW
from ledger.turns import inflight_turns, read_turn
from pipeline.events import Target
from workers.delivery.channels.contract import Typing
from workers.delivery.context import Context
from workers.observability import logs

LOOK_S = 1.0
"""Between two looks at the turns that run."""
SHOW_TIMEOUT_S = 2.0
SHOWN_AT_ONCE = 8
"""Chats that are told at the same time; the others follow."""
REMEMBERED = 4_096
"""Turns and chats that are remembered."""

Chat = tuple[str, str]
"""A target's name and the turn's own recipient."""


class Presence:
    """What one process shows of the partitions that it serves."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chats: OrderedDict[str, tuple[Chat, ...]] = OrderedDict()
        self._next_ms: OrderedDict[Chat, int] = OrderedDict()

    @property
    def is_wanted(self) -> bool:
        """Whether any target shows typing at all."""
        return any(self._shows(name) for name in self._context.channels)

    async def show(self, partitions: Iterable[int]) -> None:
        """Show it once wherever it is due."""
        try:
            chats = [chat for partition in list(partitions) for chat in await self._running(partition)]
        except LedgerError:
            return
        now_ms = self._context.clock.boottime_ms()
        due = [chat for chat in dict.fromkeys(chats) if self._next_ms.get(chat, 0) <= now_ms]
        for start in range(0, len(due), SHOWN_AT_ONCE):
            await asyncio.gather(*(self._tell(chat) for chat in due[start : start + SHOWN_AT_ONCE]))

    async def _running(self, partition: int) -> list[Chat]:
        context = self._context
        found: list[Chat] = []
        for turn in await context.scripts.run(inflight_turns(context.keys, partition)):
            if turn not in self._chats:
                record = await context.scripts.run(read_turn(context.keys, turn))
                is_ours = (
                    record is not None and record.mode != SHADOW
                )  # of a shadowed turn another path sends everything
                targets = msgspec.json.decode(record.targets or "[]", type=list[Target]) if record and is_ours else []
                self._chats[turn] = tuple(
                    (target.name, target.recipient or "") for target in targets if self._shows(target.name)
                )
                if len(self._chats) > REMEMBERED:
                    self._chats.popitem(last=False)
            found += self._chats[turn]
        return found

    def _shows(self, name: str) -> bool:
        target, channel = self._context.config.targets.get(name), self._context.channels.get(name)
        return target is not None and target.typing and isinstance(channel, Typing)

    async def _tell(self, chat: Chat) -> None:
        name, recipient = chat
        channel = self._context.channels[name]
        wait_ms = 0
        if isinstance(channel, Typing):
            try:
                wait_ms = await channel.show_typing(recipient, timeout_s=SHOW_TIMEOUT_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing depends on it
                logs.bind(target=name).debug("typing_not_shown", error=repr(error))
        self._next_ms.pop(chat, None)
        self._next_ms[chat] = self._context.clock.boottime_ms() + max(wait_ms, channel.terms.typing_ms)
        if len(self._next_ms) > REMEMBERED:
            self._next_ms.popitem(last=False)
