"""A webhook receiver as a team would have one: logs the raw request first, checks the signature, applies each id once."""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

SECRET = "whsec_" + base64.b64encode(b"a secret of this demonstration alone").decode()


class Receiver:
    """Keeps its log in a file, one JSON object a request; `applied` holds the bodies in the order of their first arrival."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen on any free port of this machine."""
        app = web.Application()
        app.router.add_post("/hook", self._receive)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        (address,) = self._runner.addresses
        self.port = int(address[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where messages are posted."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        entry = {"headers": headers, "body": body.decode(), "signed": is_signed(headers, body)}
        with self._log.open("ab") as log:  # before anything else: a request that breaks us was still received
            log.write(msgspec.json.encode(entry) + b"\n")
        return web.Response(status=204 if entry["signed"] else 401)


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """Check the signature of Standard Webhooks over id, timestamp and body."""
    signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(expected, given) for given in headers.get("webhook-signature", "").split())


def applied(log: Path, turn: str) -> tuple[list[dict[str, Any]], int]:
    """Read a receiver's log: the bodies of a turn, each id once in the order of arrival; and how many repeats came."""
    bodies: dict[str, dict[str, Any]] = {}
    repeats = 0
    for line in log.read_bytes().splitlines() if log.exists() else []:
        entry = msgspec.json.decode(line)
        body = msgspec.json.decode(entry["body"])
        if body.get("turn") != turn or not entry["signed"]:
            continue
        name = entry["headers"]["webhook-id"]
        repeats += name in bodies
        bodies.setdefault(name, body)
    return list(bodies.values()), repeats
