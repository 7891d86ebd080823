"""A fleet of real worker processes over one server, with short leases, for tests that kill, freeze and restart them.

    async with Fleet(redis_url, folder, upstreams={"sample": upstream.base_url}) as fleet:
        fold = await fleet.start("fold", failpoint="fold.before_commit=exit@2")
        turn = await fleet.submit(session="s", request={"input": "…"}, targets=["hook"])
        assert await fold.exited() == FAILPOINTS["fold.before_commit"]
        await fleet.start("fold")
        await fleet.ended(turn)

Turns are submitted straight through the ledger, so that a test chooses their ids and two runs can be compared byte for byte.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import UNSET

from ledger.commands import Call, Scripts
from ledger.delivery import parts_of, read_part
from ledger.keys import Keyspace, make_turn_id
from ledger.log import read_frames
from ledger.parts import PartRecord
from ledger.records import TurnRecord
from ledger.turns import NewTurn, TurnLimits, read_turn, submit
from pipeline.codec import encode
from pipeline.events import FOLD_VERSION, Target, TurnStarted
from tests.support.servers import free_port
from tests.support.waiting import wait_until
from workers.config import RedisConfig
from workers.runtime.failpoints import VARIABLE
from workers.streams.connection import connect
from workers.streams.patience import patiently

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
LIMITS = TurnLimits(queue_ms=60_000, turn_ms=120_000, silence_ms=60_000, tool_ms=60_000, bytes=1 << 24)
SETTINGS = {"min_chars": 90, "max_chars": 90, "idle_ms": 5_000}
"""Small blocks, so that a short text has several. A silence gives out what holds the minimum; here that is a full block, so a gate that
stands for long cuts nothing, unless it leaves exactly 90 characters held. None of the texts in `tests/fleet` does."""

TIMES: Mapping[str, str] = {
    "FOLDLINE_REDIS_BLOCK_MS": "200",
    "FOLDLINE_INGEST_LEASE_MS": "1500",
    "FOLDLINE_INGEST_RENEW_MS": "300",
    "FOLDLINE_FOLD_LEASE_MS": "1500",
    "FOLDLINE_FOLD_RENEW_MS": "300",
    "FOLDLINE_DELIVERY_LEASE_MS": "2500",
    "FOLDLINE_DELIVERY_RENEW_MS": "300",
    "FOLDLINE_DELIVERY_SEND_DEADLINE_MS": "1500",
    "FOLDLINE_DELIVERY_MARGIN_MS": "200",
    "FOLDLINE_DELIVERY_UNKNOWN_HOLD_MS": "300",
    "FOLDLINE_DELIVERY_BACKOFF_BASE_MS": "100",
    "FOLDLINE_DELIVERY_BACKOFF_MAX_MS": "500",
}
"""Leases a tenth to a third of the defaults; all inequalities hold."""


class Worker:
    """One process of a role."""

    def __init__(self, role: str, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.role = role
        self.process = process
        self.log = log
        self.port = port

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether the process is frozen by SIGSTOP."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in {"T", "t"}

    async def exited(self, timeout_s: float = 20) -> int:
        """Wait for the end and return the exit code (negative: the signal)."""
        await wait_until(lambda: not self.is_alive, f"{self.role} to exit", timeout_s)
        return self.process.returncode

    async def frozen(self, timeout_s: float = 20) -> None:
        """Wait until a pause failpoint has stopped the process."""
        await wait_until(
            lambda: self.is_stopped or not self.is_alive, f"{self.role} to freeze\n{self.tail()}", timeout_s
        )
        assert self.is_alive, f"{self.role} ended instead of freezing: {self.tail()}"

    async def terminate(self, timeout_s: float = 20) -> int:
        """SIGTERM, then wait."""
        self.process.terminate()
        return await self.exited(timeout_s)

    async def kill(self) -> None:
        """SIGKILL, then wait."""
        self.process.kill()
        await self.exited()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def tail(self, size: int = 3000) -> str:
        """The end of the process's log."""
        return self.log.read_text(errors="replace")[-size:]


class Fleet:
    """The processes, the configuration they share, and a client to look at what they do."""

    def __init__(
        self,
        redis_url: str,
        folder: Path,
        *,
        upstreams: Mapping[str, Mapping[str, Any]],
        targets: Mapping[str, Mapping[str, Any]] | None = None,
        partitions: int = 4,
        cluster: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.keys = Keyspace("fl", partitions)
        self.upstreams = upstreams
        self.targets = targets or {}
        self.workers: list[Worker] = []
        ca_file = (environ or {}).get("FOLDLINE_REDIS_CA_FILE", "")
        self._redis = RedisConfig(url=redis_url, partitions=partitions, cluster=cluster, ca_file=ca_file)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FOLDLINE_")},
            **TIMES,
            **(environ or {}),
            "FOLDLINE_CONFIG": str(folder / "foldline.toml"),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        """What its processes see."""
        (folder / "foldline.toml").write_text(self._toml())
        self._client = connect(self._redis, name="test")
        self.scripts = Scripts(self._client)

    def _toml(self) -> str:
        quote = msgspec.json.encode
        lines = ["[redis]", f"url = {quote(self._redis.url).decode()}", f"partitions = {self.keys.partitions}"]
        lines.append(f"cluster = {str(self._redis.cluster).lower()}")
        for section, tables in (("upstreams", self.upstreams), ("targets", self.targets)):
            for name, table in tables.items():
                lines.append(f"[{section}.{name}]")
                lines += [f"{key} = {quote(value).decode()}" for key, value in table.items()]
        return "\n".join(lines) + "\n"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if worker.is_alive:
                worker.process.kill()
                worker.process.wait(timeout=20)
        await self._client.aclose()
        if error is not None:
            for worker in self.workers:
                print(f"--- {worker.role} {worker.process.pid} ({worker.process.returncode})\n{worker.tail()}")

    async def start(
        self, role: str, *, failpoint: str = "", environ: Mapping[str, str] | None = None, wait: bool = True
    ) -> Worker:
        """Start a process of a role; with `wait` return when it works (or has ended at its failpoint)."""
        log = self.folder / f"{role}-{len(self.workers)}.log"
        port = free_port()
        more = {"FOLDLINE_GATEWAY_PORT": str(port)} if role == "gateway" else {}
        service = free_port()
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers", role],
                cwd=self.folder,
                env={
                    **self.environ,
                    VARIABLE: failpoint,
                    "FOLDLINE_SERVICE_PORT": str(service),
                    **more,
                    **(environ or {}),
                },
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        worker = Worker(role, process, log, port if role == "gateway" else service)
        self.workers.append(worker)
        if wait:
            await wait_until(
                lambda: not worker.is_alive or worker.is_stopped or _answers(service), f"{role} to be ready", 20
            )
        return worker

    async def submit(
        self,
        *,
        request: Mapping[str, Any] | None = None,
        session: str = "session",
        upstream: str = "sample",
        targets: Sequence[str] = (),
        turn_hex: str = "0" * 24,
        settings: Mapping[str, Any] | None = None,
        at: int = 1_750_000_000_000,
        parent: str = "",
        parent_call: str = "",
    ) -> str:
        """Submit a turn under a chosen id, as a child when it has a parent; returns the id."""
        turn = make_turn_id(self.keys.partition_of(session), turn_hex)
        wanted = [Target(channel=str(self.targets[name]["channel"]), name=name) for name in targets]
        started = TurnStarted(
            seq=0,
            at=at,
            fold=FOLD_VERSION,
            runtime="subagent" if parent else "main",
            parent=parent or None,
            parent_call=parent_call or UNSET,
            wire=str(self.upstreams[upstream].get("wire", "responses")),
            turn=turn,
            session=session,
            upstream=upstream,
            settings=dict(SETTINGS if settings is None else settings),
            targets=wanted,
        )
        new = NewTurn(
            turn=turn,
            tenant="test",
            runtime="subagent" if parent else "main",
            session=session,
            upstream=upstream,
            parent=parent,
            parent_call=parent_call,
            request=msgspec.json.encode({"model": "sample-1", **(request or {"input": "Hello."})}).decode(),
            started=encode(started).decode(),
            targets=msgspec.json.encode(wanted).decode(),
            limits=LIMITS,
        )
        await self.run(submit(self.keys, new, tenant_limit=1000, partition_limit=1000))
        return turn

    async def run(self, call: Call[T]) -> T:
        """Run a ledger call, again while the server is away."""
        return await patiently(lambda: self.scripts.run(call), what=call.name, role="test")

    async def turn(self, turn: str) -> TurnRecord:
        """The turn's record."""
        record = await self.run(read_turn(self.keys, turn))
        assert record is not None, f"no turn {turn}"
        return record

    async def frames(self, turn: str) -> str:
        """The public stream as it is stored: server-sent events, one after the other."""
        entries = await self.run(read_frames(self.keys, turn, after=-1, count=100_000))
        numbers = [number for entry in entries for number in range(entry.first, entry.last + 1)]
        assert numbers == list(range(len(numbers))), f"frame numbers of {turn}: {numbers}"
        return "".join(entry.sse for entry in entries)

    async def framed(self, turn: str, count: int, timeout_s: float = 30) -> None:
        """Wait until so many frames are stored."""

        async def stored() -> bool:
            return (await self.turn(turn)).frames_next >= count

        await wait_until(stored, f"{count} frames of {turn}", timeout_s)

    async def ended(self, turn: str, timeout_s: float = 40) -> TurnRecord:
        """Wait until the turn's last frame is stored."""

        async def terminal() -> bool:
            return (await self.turn(turn)).state.is_terminal

        await wait_until(terminal, f"{turn} to end", timeout_s)
        return await self.turn(turn)

    async def parts(self, turn: str) -> list[PartRecord]:
        """The turn's parts, in the order of planning."""
        ids = await self.run(parts_of(self.keys, turn))
        records = [await self.run(read_part(self.keys, part_id)) for part_id in ids]
        return [record for record in records if record is not None]

    async def settled(self, turn: str, timeout_s: float = 40) -> TurnRecord:
        """Wait until the turn has ended and none of its deliveries is open."""

        async def done() -> bool:
            record = await self.turn(turn)
            return record.state.is_terminal and record.planned == record.blocks_next and record.open_parts == 0

        await wait_until(done, f"the deliveries of {turn}", timeout_s)
        return await self.turn(turn)


def _answers(port: int) -> bool:

    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
