"""The loopback upstream: answers each request by the play of its key, and logs the request first."""

import asyncio
from pathlib import Path

import msgspec
from aiohttp import web

from scripts.chaos.journal import Journal
from scripts.chaos.scripting import play_of
from scripts.responses_stream import sse


class Provider:
    """One upstream on loopback."""

    def __init__(self, log: Path, seed: int) -> None:
        self._journal = Journal(log)
        self._seed = seed
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/responses", self._respond)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Cut what is open and listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._journal.close()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        key = body["metadata"]["key"]
        self._journal.write(key=key)
        play = play_of(self._seed, key)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in play.events(body):
            await response.write(sse(event))
            await asyncio.sleep(play.delay_s)
        if play.cut_before is None:
            await response.write_eof()
        elif request.transport is not None:
            request.transport.close()
        return response
