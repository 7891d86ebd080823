"""What the roles that own partitions do with each in the same way: serve it until it ends, and ring at it when its stream has news."""

from collections.abc import Callable, Iterable
from typing import Protocol

from workers.config import ServiceConfig
from workers.observability import logs
from workers.observability.health import HealthServer
from workers.runtime.service import Service
from workers.streams.news import News
from workers.streams.ownership_loop import Partitions


class PartitionGoneError(Exception):
    """Another owner is at work, or the server was emptied: nothing more may be begun under this token."""


class Served(Protocol):
    """A partition that is owned under a token."""

    number: int
    token: str

    async def serve(self) -> None:
        """Work until stopped; raises `PartitionGoneError` when the token does not hold any more."""

    def ring(self) -> None:
        """Say that there may be something to do."""


async def serve(served: Served, ownership: Partitions) -> None:
    """Serve a partition, and give it up where that fails: one partition's failure must not end the others."""
    log = logs.bind(partition=served.number, token=served.token)
    try:
        await served.serve()
    except PartitionGoneError as gone:
        log.warning("partition_given_up", reason=str(gone))
        ownership.give_up(served.number)
    except Exception:
        log.exception("partition_failed")
        ownership.give_up(served.number)


async def listen(news: News, stream_of: Callable[[int], str], serving: Callable[[], Iterable[Served]]) -> None:
    """Ring at the partitions whose streams have something new."""
    while True:
        found = await news.wait()
        for served in list(serving()):
            if stream_of(served.number) in found:
                served.ring()


def operations_port(config: ServiceConfig, ownership: Partitions) -> list[Service]:
    """The process's operations port, if it is to have one."""
    return [HealthServer(config.host, config.port, lambda: ownership.is_connected)] if config.port is not None else []
