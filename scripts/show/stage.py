"""Everything that runs behind the demonstration: a server, the Procfile's roles, a sample upstream, a webhook receiver."""

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

import aiohttp

from ledger import ownership
from scripts.ports import free_port
from scripts.show import receiver as receiving
from scripts.show.receiver import Receiver
from workers.commands.session import Ledger, open_ledger
from workers.config import Config, load
from workers.embedded import EmbeddedServer
from workers.supervisor import Role, Supervisor, read_procfile

FOLD_WORKERS = 2  # one to be killed, one to take over
READY_S = 60.0
POLL_S = 0.1
GATEWAY_PORT = 8137
UPSTREAM = "sample"
SECRET_VARIABLE = "FOLDLINE_DEMO_SECRET"  # noqa: S105 - a variable's name
SETTINGS = {"min_chars": 150, "max_chars": 400}  # several messages of a short answer

CONFIGURATION = """\
# Made by scripts/run for its demonstration.
[gateway]
port = {gateway_port}
default_upstream = "{upstream}"

[upstreams.{upstream}]
base_url = "http://127.0.0.1:{upstream_port}/v1"
models = ["sample-1"]
side_effects = false

[targets.console]
channel = "console"
path = "{console}"

[targets.hook]
channel = "webhook"
url = "{hook}"
secret_env = "{secret}"
"""


class Stage:
    """Starts everything, tells where it is, and leaves nothing behind."""

    def __init__(self, folder: Path, *, delay_ms: int, say: Callable[[str], None]) -> None:
        self.folder = folder.absolute()
        self.console = self.folder / "console.jsonl"
        self.hook_log = self.folder / "receiver.jsonl"
        self.fleet_log = self.folder / "fleet.log"
        self._delay_ms = delay_ms
        self._say = say
        self._receiver = Receiver(self.hook_log)
        self._server: EmbeddedServer | None = None
        self._stop = asyncio.Event()
        self.config: Config
        self.supervisor: Supervisor
        self._running: asyncio.Task[None] | None = None
        self.upstream_url = ""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    @property
    def gateway_url(self) -> str:
        """Where clients go."""
        return f"http://127.0.0.1:{self.config.gateway.port}"

    async def ended(self) -> None:
        """Wait until the fleet ends, which it does by itself only when it cannot go on."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for log in (self.console, self.hook_log, self.fleet_log):
            log.unlink(missing_ok=True)
        await self._receiver.start()
        environ = self._configure()
        if "FOLDLINE_REDIS_URL" not in environ:
            self._server = EmbeddedServer(self.folder.parent)
            environ["FOLDLINE_REDIS_URL"] = self._server.start().url
        self.config = load(None, environ)
        self.supervisor = Supervisor(self._roles(), sink=self._sink, environ=environ, server=self._server)
        self._running = asyncio.create_task(self.supervisor.run(self._stop))
        await self._ready()

    def _configure(self) -> dict[str, str]:
        gateway_port = GATEWAY_PORT if _is_free(GATEWAY_PORT) else free_port()
        upstream_port = free_port()
        self.upstream_url = f"http://127.0.0.1:{upstream_port}/v1"
        self._upstream_command = ("-m", "scripts.sample_upstream", "--port", str(upstream_port))
        path = self.folder / "foldline.toml"
        text = CONFIGURATION.format(
            gateway_port=gateway_port,
            upstream=UPSTREAM,
            upstream_port=upstream_port,
            console=self.console,
            hook=self._receiver.url,
            secret=SECRET_VARIABLE,
        )
        path.write_text(text, encoding="utf-8")
        return {**os.environ, "FOLDLINE_CONFIG": str(path), SECRET_VARIABLE: receiving.SECRET}

    def _roles(self) -> list[Role]:
        roles = read_procfile(Path("Procfile"))
        python = roles[0].command[0]
        upstream = (python, *self._upstream_command, "--delay-ms", str(self._delay_ms))
        return [
            Role(name="upstream", command=upstream),
            *(replace(role, count=FOLD_WORKERS) if role.name == "fold" else role for role in roles),
        ]

    def _sink(self, name: str, line: str) -> None:
        with self.fleet_log.open("a", encoding="utf-8") as log:
            log.write(f"{name} | {line}\n")
        if line.startswith("["):  # the supervisor's own words
            self._say(f"{name} {line.strip('[]')}")

    async def _ready(self) -> None:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session, open_ledger(self.config) as ledger:
            for url in (f"{self.upstream_url.removesuffix('/v1')}/healthz", f"{self.gateway_url}/readyz"):
                while not await _answers(session, url):
                    self._check()
                    await asyncio.sleep(POLL_S)
            while not await self._is_staffed(ledger):
                self._check()
                await asyncio.sleep(POLL_S)

    async def _is_staffed(self, ledger: Ledger) -> bool:
        """Whether every partition has its owners, and the fold workers share them."""
        fold = await self._owners(ledger, "fold")
        return len(fold) >= FOLD_WORKERS and bool(await self._owners(ledger, "delivery"))

    async def _owners(self, ledger: Ledger, role: str) -> set[str]:
        """The workers that own partitions; empty while a partition has no owner."""
        live = await ledger.scripts.run(ownership.live_workers(ledger.keys, role=role))
        owners = [
            (await ledger.scripts.run(ownership.read_owner(ledger.keys, role=role, partition=p))).worker
            for p in range(ledger.keys.partitions)
        ]
        return set(owners) if set(owners) <= set(live) else set()

    def _check(self) -> None:
        if self._running is None or self._running.done():
            raise RuntimeError(
                f"the fleet did not start; {self.supervisor.fault or f'its words are in {self.fleet_log}'}"
            )

    async def _end(self) -> None:
        self._stop.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        await self._receiver.stop()
        if self._server is not None:
            self._server.stop()


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
