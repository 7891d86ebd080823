"""Publishing events of a turn that no ingest process carries: its first event at submit, and what its producer brings.

Every step may be repeated as it is: the first event is frozen in the turn's record, and a repeat of any other adds nothing.
"""

from typing import Any

from ledger.errors import Full
from ledger.external import EXTERNAL, is_first, note_wait
from ledger.log import PublishReply, publish
from ledger.records import TurnRecord
from ledger.turns import read_turn
from pipeline import codec
from pipeline.events import TERMINALS, Event
from workers.gateway.errors import TURN_LOST, HttpError
from workers.gateway.store import Store
from workers.observability import metrics


async def begin(store: Store, turn: str) -> int:
    """Publish the turn's first event as it was frozen at submit, unless it is there; return the next number."""
    record = await store.run(read_turn(store.keys, turn))
    if record is None:
        raise HttpError(500, TURN_LOST, "the turn was accepted, and is gone: its server lost its data")
    following = record.next.get(EXTERNAL, 0)
    if following or record.ended:
        return following
    reply = await put(store, turn, record.external_token, [codec.decode(record.started, turn=turn, producer=EXTERNAL)])
    return reply.next


async def put(store: Store, turn: str, token: str, events: list[Event]) -> PublishReply:
    """Publish events that are cut to size."""
    last = events[-1]
    call = publish(
        store.keys,
        turn,
        token=token,
        producer=EXTERNAL,
        first_seq=events[0].seq,
        events_json=codec.encode_batch(events),
        n=len(events),
        terminal=str(last.__struct_config__.tag) if isinstance(last, TERMINALS) else None,
    )
    try:
        return await store.run(call)
    except Full:
        raise await keep_waiting(store, turn, token, "memory_full", "the turn store has no room") from None


def told(record: TurnRecord, *, submitter: bool = False) -> dict[str, Any]:
    """What is told of an external turn's producer; its submitter gets the token, unless somebody has claimed the turn since."""
    if not record.external_token:
        return {}
    producer: dict[str, Any] = {"next": record.next.get(EXTERNAL, 0)}
    if submitter:
        producer["token"] = record.external_token if is_first(record.external_token) else None
    return {"producer": producer}


def cut(events: list[Event], *, max_events: int, max_bytes: int) -> list[Event]:
    """As many events from the front as one publish may hold, one at least."""
    size = 0
    for index, event in enumerate(events[:max_events]):
        size += len(codec.encode(event))
        if index and size > max_bytes:
            return events[:index]
    return events[:max_events]


async def keep_waiting(store: Store, turn: str, token: str, code: str, words: str) -> HttpError:
    """The answer to a producer that has to wait for room; its turn is not silent meanwhile."""
    await store.run(note_wait(store.keys, turn, token=token))
    metrics.ADMISSION_REFUSED.labels(bound=code).inc()
    return HttpError(429, code, f"{words}; send the same again later", headers={"Retry-After": "1"})
