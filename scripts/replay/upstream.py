"""A model API on the loopback interface that answers with recorded bytes: the request's model says with which."""

import random
from collections.abc import Mapping
from typing import Self

import msgspec
from aiohttp import web

from scripts.replay.cases import Case

JSON_BEGINS = (b"{", b"[")


class Recordings:
    """Plays the case of the number that a request has as its model, in pieces of any size, always the same ones."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self._cases = cases
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._play)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _play(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        model = body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
        data = self._cases[model].data
        is_json = data.lstrip().startswith(JSON_BEGINS)
        response = web.StreamResponse(headers={"Content-Type": "application/json" if is_json else "text/event-stream"})
        await response.prepare(request)
        chance = random.Random(model)
        at = 0
        while at < len(data):
            size = chance.choice((1, 7, 300, 4000))
            await response.write(data[at : at + size])
            at += size
        await response.write_eof()
        return response
