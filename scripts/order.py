"""The order that a turn's events must have, whatever its wire: the breaches, in words. Knows no adapter.

Numbers count up by one. Text comes before its final word, which is what was streamed unless a status `mismatch` says otherwise; a call's input between its start and its
end; nothing of an item after its end. One terminal, and it is the last; before it everything that began has ended.
"""

from collections.abc import Iterable

from pipeline.events import TERMINALS, BlockFinal, Event, Status, TextDelta, ToolFinished, ToolStarted

Slot = tuple[int, int, str]


class Order:
    """What was seen of a turn so far."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self._texts: dict[Slot, list[str]] = {}
        self._finals: set[Slot] = set()
        self._calls: dict[int, str] = {}
        self._done: set[int] = set()
        self._seq: int | None = None
        self._ended = False
        self._differs: dict[int, int] = {}

    def see(self, event: Event) -> None:
        """Take the next event."""
        if self._seq is not None and event.seq != self._seq + 1:
            self._breach(event, f"follows {self._seq}")
        self._seq = event.seq
        if self._ended:
            self._breach(event, "comes after the terminal")
        match event:
            case TextDelta():
                self._delta(event)
            case BlockFinal():
                self._final(event)
            case ToolStarted(item=item, call_id=call_id):
                if item in self._calls or item in self._done or any(slot[0] == item for slot in self._texts):
                    self._breach(event, "starts an item that there is already")
                self._calls[item] = call_id
            case ToolFinished(item=item, call_id=call_id):
                if self._calls.get(item) != call_id or item in self._done:
                    self._breach(event, "ends a call that is not open")
                self._done.add(item)
            case Status(name="item_finished", item=int(item)):
                self._done.add(item)
            case Status(name="mismatch", item=int(item)):
                self._differs.pop(item, None)
            case _:
                self._ended = self._ended or isinstance(event, TERMINALS)

    def close(self) -> list[str]:
        """Everything that is wrong with the whole."""
        if not self._ended:
            self.breaches.append("there is no terminal")
        self.breaches += [f"call {item} has no end" for item in self._calls if item not in self._done]
        self.breaches += [f"{seq} is not what was streamed, and nothing says so" for seq in self._differs.values()]
        for slot in self._texts:
            if slot[2] != "tool_input" and slot not in self._finals:
                self.breaches.append(f"text {slot} has no final word")
        return self.breaches

    def _delta(self, event: TextDelta) -> None:
        slot = (event.item, event.content, event.track)
        if slot in self._finals or event.item in self._done:
            self._breach(event, "comes after the end of its text")
        if (event.track == "tool_input") != (event.item in self._calls):
            self._breach(event, "is of another kind of item")
        self._texts.setdefault(slot, []).append(event.text)

    def _final(self, event: BlockFinal) -> None:
        slot = (event.item, event.content, event.track)
        if (
            slot in self._finals
            or event.item in self._done
            or (event.item in self._calls) != (event.track == "tool_input")
        ):
            self._breach(event, "is not the first end of a text")
        self._finals.add(slot)
        if "".join(self._texts.get(slot, ())) != event.text:
            self._differs[event.item] = event.seq

    def _breach(self, event: Event, why: str) -> None:
        self.breaches.append(f"{type(event).__name__} {event.seq} {why}")


def breaches(events: Iterable[Event]) -> list[str]:
    """Everything that is wrong with the order of a whole turn's events; empty when it is legal."""
    order = Order()
    for event in events:
        order.see(event)
    return order.close()
