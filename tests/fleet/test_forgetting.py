"""`foldline forget` against a whole fleet: nothing that one session said is left on the server, and another's data is untouched."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from tests.support.contents import contents, mentioning
from tests.support.environment import without_settings
from tests.support.fleet import Fleet, Worker
from tests.support.receivers import Act, Receiver
from tests.support.servers import Cluster, Server, free_port
from tests.support.upstream import Answer, Answerer, Received, Upstream, text
from tests.support.waiting import wait_until
from workers.cli import ROLES, run_role
from workers.commands.index import build

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

PLANTED = "Xanthippe"
KEPT = "Demosthenes"
ENVIRON = {
    "FOLDLINE_MODES_ACP": "shadow",
    "FOLDLINE_LIMITS_CANCEL_GRACE_MS": "500",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


class Site:
    """A fleet that people and programs have talked to."""

    def __init__(self, fleet: Fleet, gateway: Worker, http: aiohttp.ClientSession, server: Server | Cluster) -> None:
        self.fleet = fleet
        self.http = http
        self.server = server
        self.url = f"http://127.0.0.1:{gateway.port}"

    async def post(self, path: str, body: Any, **headers: str) -> dict[str, Any]:
        async with self.http.post(self.url + path, json=body, headers=headers) as answer:
            told = await answer.json()
            assert answer.status in {200, 201}, told
            return dict(told)

    async def submit(self, session: str, word: str, **body: Any) -> str:
        request = {"model": "sample-1", "input": f"Tell me about {word}."}
        told = await self.post("/v1/turns", {"request": request, "upstream": "sample", "session": session, **body})
        return str(told["id"])

    async def talk(self, session: str, word: str) -> list[str]:
        """A turn that is delivered, to one place and not to another; a shadowed one from outside, reported by the other path."""
        targets = ["hook", "nowhere"]
        turn = await self.submit(session, word, targets=targets, idempotency_key=f"key-of-{session}", serial=True)
        outside = await self.outside(session, word)
        await self.fleet.ended(turn)
        await wait_until(lambda: self.is_planned(turn), "its blocks to be planned")
        await self.fleet.ended(outside)
        await self.post(
            f"/v1/shadow/{outside}",
            {"messages": [{"n": 0, "target": "hook", "text": f"{word} said the other path"}], "total": 1},
        )
        return [turn, outside]

    async def report(self, *turns: str) -> None:
        """What the other path tells by the stream: of each turn twice, and of the same number another text, so that it is put aside."""
        raw: Any = self.fleet.scripts._client
        for turn in turns:
            for word in (PLANTED, f"{PLANTED} once more") if turn == turns[0] else (KEPT,):
                body = {"messages": [{"n": 0, "target": "hook", "text": f"{word}, otherwise"}], "total": 1}
                await raw.execute_command(
                    "XADD", self.fleet.keys.reports, "*", "turn", turn, "report", json.dumps(body)
                )

        async def is_aside() -> bool:
            return len(await raw.execute_command("XRANGE", self.fleet.keys.reports_aside, "-", "+")) == 3

        await wait_until(is_aside, "the contradictions to be put aside")

    async def outside(self, session: str, word: str) -> str:
        body = {"request": {"note": word}, "upstream": "outside", "session": session, "targets": ["hook"]}
        told = await self.post("/v1/turns", body)
        said = f"{word} from outside. "
        events = [
            {"type": "text_delta", "seq": 1, "at": 9, "item": 0, "content": 0, "track": "text", "text": said},
            {"type": "turn_completed", "seq": 2, "at": 9, "outcome": "completed"},
        ]
        header = {"X-Foldline-Producer": told["producer"]["token"]}
        await self.post(f"/v1/turns/{told['id']}/events", events, **header)
        return str(told["id"])

    async def is_planned(self, turn: str) -> bool:
        record = await self.fleet.turn(turn)
        states = {part.target: part.state.value for part in await self.fleet.parts(turn)}
        wanted = {"hook": "sent", "nowhere": "retry"}
        return record.planned == record.blocks_next and states == wanted

    async def foldline(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        command = CliRunner().invoke
        result = await asyncio.to_thread(command, build(run_role, ROLES), [*arguments, "--json"])
        assert result.exit_code == code, (result.output, result.exception)
        return dict(json.loads(result.stdout))


def gated(received: Received) -> Answer:
    """Answer with the word that was asked about; one that asks for a stall gets half of it."""
    asked = str(received.body["input"])
    answerer: Answerer = text(f"{asked} And so on. " * 8, pieces=8, keep=8 if "stall" in asked else None,
                              ending="stall" if "stall" in asked else "close")  # fmt: skip
    return answerer(received)


async def site_on(stack: AsyncExitStack, server: Server | Cluster, folder: Path, monkeypatch: Any) -> Site:
    for node in server.servers if isinstance(server, Cluster) else [server]:
        with node.client() as client:
            client.flushall()
    upstream = await stack.enter_async_context(Upstream(gated))
    receiver = await stack.enter_async_context(Receiver())
    receiver.otherwise = Act.ACCEPT
    fleet = await stack.enter_async_context(
        Fleet(
            server.url,
            folder,
            upstreams={
                "sample": {"base_url": upstream.base_url, "side_effects": False, "read_timeout_ms": 60_000},
                "outside": {"external": True, "runtime": "acp"},
            },
            targets={
                "hook": {"channel": "webhook", "url": receiver.url},
                "nowhere": {"channel": "webhook", "url": f"http://127.0.0.1:{free_port()}/"},
            },
            cluster=isinstance(server, Cluster),
            environ=ENVIRON,
        )
    )
    without_settings(monkeypatch)
    for name, value in fleet.environ.items():
        if name.startswith("FOLDLINE_"):
            monkeypatch.setenv(name, value)
    workers = {role: await fleet.start(role) for role in ROLES}
    http = await stack.enter_async_context(aiohttp.ClientSession())
    return Site(fleet, workers["gateway"], http, server)


@pytest.mark.parametrize("kind", ["server", "cluster"])
async def test_nothing_that_a_forgotten_session_said_is_left(
    kind: str, redis_server: Server, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Server | Cluster = request.getfixturevalue("cluster") if kind == "cluster" else redis_server
    async with AsyncExitStack() as stack:
        s = await site_on(stack, server, tmp_path, monkeypatch)
        said = await s.talk("alpha", PLANTED)
        kept = await s.talk("beta", KEPT)
        parent = await s.submit("alpha", f"{PLANTED}, and stall")
        await s.fleet.framed(parent, 6)
        child = await s.submit("alpha", f"{PLANTED}, and stall", parent=parent, parent_call="call_1")
        await s.fleet.framed(child, 6)
        said += [parent, child]
        await s.report(said[1], kept[1])
        before = contents(server)
        kinds = {key.split(":")[2] for key in mentioning(before, PLANTED)}
        assert kinds == {"log", "turn", "frames", "block", "part", "legacy", "aside"}, kinds
        assert await s.foldline("forget", "--session", "alpha", "--dry-run") == {
            "dry_run": True, "turns": 4, "deliveries": 3, "idempotency_keys": 1, "reports": 2, "cancelled": 0,
            "refused": {},
        }  # fmt: skip
        done = await s.foldline("forget", "--session", "alpha")
        assert (done["turns"], done["idempotency_keys"], done["cancelled"], done["refused"]) == (4, 1, 2, {})
        after = contents(server)
        assert not [key for turn in said for key in mentioning(after, turn)]
        assert mentioning(after, PLANTED) == set()
        assert mentioning(after, "alpha") == set()
        of_beta = {key for turn in kept for key in mentioning(before, turn) if turn in key}
        volatile = ("attempts", "due_at", "lanes")
        assert of_beta <= set(after), "another session's data is still there"
        assert all(after[key] == before[key] or any(word in before[key] for word in volatile) for key in of_beta)
        assert len(mentioning(after, KEPT)) == len(mentioning(before, KEPT))
        again = await s.foldline("forget", "--session", "alpha")
        assert (again["turns"], again["deliveries"], again["idempotency_keys"]) == (0, 0, 0)
        fresh = await s.submit("alpha", "something else", targets=["hook"], idempotency_key="key-of-alpha")
        assert fresh not in said, "the key is as good as new"
        assert (await s.fleet.ended(fresh)).state == "completed"
        assert (await s.foldline("refold", kept[0]))["result"] == "same"


async def test_a_tenant_is_forgotten_with_all_its_sessions(
    redis_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        s = await site_on(stack, redis_server, tmp_path, monkeypatch)
        tokens = {name: (await s.foldline("keys", "add", name))["key"] for name in ("acme", "other")}
        request = {"model": "sample-1", "input": f"Tell me about {PLANTED}."}
        made: dict[str, list[str]] = {}
        for tenant, token in tokens.items():
            for number, named in enumerate(({"session": "s"}, {}, {"idempotency_key": "k"})):
                body = {"request": request, "upstream": "sample", "targets": ["hook"], **named}
                told = await s.post("/v1/turns", body, Authorization=f"Bearer {token}")
                made.setdefault(tenant, []).append(told["id"])
                assert number < 3
        for turn in [turn for turns in made.values() for turn in turns]:
            await s.fleet.settled(turn)
        done = await s.foldline("forget", "--tenant", "acme", "--session", "s")
        assert (done["turns"], done["idempotency_keys"]) == (1, 0), "one session of the tenant"
        done = await s.foldline("forget", "--tenant", "acme")
        assert (done["turns"], done["idempotency_keys"], done["refused"]) == (2, 1, {})
        held = contents(redis_server)
        assert not any(turn in key for turn in made["acme"] for key in held)
        assert mentioning(held, "acme") == {"fl:keys"}, "whoever holds its key may come again"
        assert all(f"fl:{{{turn.partition('-')[0]}}}:turn:{turn}" in held for turn in made["other"])


async def test_what_nobody_ends_is_refused_by_name_and_left_whole(
    redis_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        s = await site_on(stack, redis_server, tmp_path, monkeypatch)
        turn = await s.submit("alpha", f"{PLANTED}, and stall", targets=["hook"])
        await s.fleet.framed(turn, 6)
        for worker in s.fleet.workers:
            await worker.kill()
        before = contents(redis_server)
        done = await s.foldline("forget", "--session", "alpha", "--wait", "0", code=2)
        assert done["refused"] == {turn: "it has not ended"}
        after = contents(redis_server)
        assert set(after) == set(before)
        changed = {key for key in before if after[key] != before[key]}
        assert changed <= {f"fl:{{{turn.partition('-')[0]}}}:turn:{turn}"}, "flagged as cancelled, and nothing else"
        for role in ("ingest", "fold", "delivery"):
            await s.fleet.start(role)
        assert (await s.foldline("forget", "--session", "alpha"))["refused"] == {}
        assert mentioning(contents(redis_server), PLANTED) == set()
