"""The agents of one ingest process: no more than a number at once, each in its own turn, none that outlives the process.

The protocol's library is large; it is loaded where an agent is configured, and nowhere else.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from pipeline.events import ErrorInfo
from workers.config import UpstreamConfig
from workers.ingest.failures import Phase, SourceError
from workers.ingest.requests import UpstreamRequest
from workers.ingest.sources.agent_process import ENDED_BY_US, AgentProcess
from workers.observability import logs

if TYPE_CHECKING:
    from workers.ingest.sources.acp import AcpSource


class Agents:
    """The agents that run, and the places for more."""

    def __init__(self, limit: int) -> None:
        self._places = asyncio.Semaphore(limit)
        self._running: set[AcpSource] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._log = logs.bind(part="agents")

    @staticmethod
    def prepare() -> None:
        """Load what agents need, before the first of them is waited for."""
        _source_class()

    async def open(
        self,
        upstream: UpstreamConfig,
        request: UpstreamRequest,
        environ: Mapping[str, str],
        *,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> "AcpSource":
        """Wait for a free place (within `waiting`), start an agent and send it the prompt; raises SourceError."""
        with waiting():
            await self._places.acquire()
        try:
            process = await AgentProcess.start(upstream, environ)
        except (OSError, ValueError) as error:
            self._places.release()
            self._log.warning("agent_not_started", error=str(error))
            failed = ErrorInfo(code="upstream_connect_failed", message="the agent could not be started")
            raise SourceError(failed, Phase.CONNECT) from None
        except BaseException:
            self._places.release()
            raise
        source = _source_class()(process, upstream, self._leave)
        self._running.add(source)
        try:
            await source.begin(msgspec.json.decode(request.body or b"{}"))
        except BaseException:
            source.close()
            raise
        return source

    async def close(self) -> None:
        """End every agent and wait until they have gone."""
        for source in list(self._running):
            source.kill()
            source.close()
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    def _leave(self, source: "AcpSource") -> None:
        task = asyncio.create_task(self._see_off(source))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _see_off(self, source: "AcpSource") -> None:
        try:
            code = await source.leave()
            if code not in ENDED_BY_US:
                self._log.warning("agent_failed", code=code, stderr=source.last_words)
        finally:
            self._running.discard(source)
            self._places.release()


def _source_class() -> "type[AcpSource]":
    from workers.ingest.sources.acp import AcpSource  # noqa: PLC0415  see the module's own words

    return AcpSource
