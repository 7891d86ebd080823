"""Run recorded agents as programs, and hold their turns against their lines: `python -m scripts.recorded_turns FOLDER`.

For each `X.both.jsonl` of the folder (both sides, `{"from": "client" | "agent", "msg": …}` a line) the recorded agent is started as an
upstream is, behind its warden, greeted, prompted, answered by the policy that the recorded client followed, and cancelled where that
client did. The events of its turn must be those that the adapter reads from the recorded lines. Exit 1 on any difference.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.events import Event
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation
from workers.config import UpstreamConfig
from workers.ingest.requests import build
from workers.ingest.sources.acp import AcpSource
from workers.ingest.sources.agents import Agents

PLAYER = Path(__file__).with_name("recorded_agent.py")
READY_MS = 60_000
Json = dict[str, Any]


@dataclass
class Recording:
    """What a client did in a recording, and what the agent said in the first turn."""

    policy: str = "reject"
    cancel_after: int | None = None
    """Lines of the turn after which the client cancelled."""
    said: list[bytes] = field(default_factory=list)
    prompt_id: int = 0


def read(lines: Iterable[str]) -> Recording:
    """Read a recording up to the end of its first turn."""
    found = Recording()
    offered: dict[Any, dict[str, str]] = {}
    prompted, opening, opened = False, None, False
    for line in lines:
        who, message = (entry := json.loads(line))["from"], entry["msg"]
        if who == "client":
            if message.get("method") == "session/prompt":
                if prompted:
                    break
                prompted, found.prompt_id = True, message["id"]
            elif message.get("method") in {"session/new", "session/load"}:
                opening = message["id"]
            elif message.get("method") == "session/cancel":
                found.cancel_after = len(found.said)
            elif message.get("id") in offered and "result" in message:
                found.policy = _policy(message["result"].get("outcome") or {}, offered[message["id"]])
        elif not opened:
            opened = opening is not None and "method" not in message and message.get("id") == opening
        else:
            if message.get("method") == "session/request_permission":
                offered[message["id"]] = {one["optionId"]: one["kind"] for one in message["params"]["options"]}
            found.said.append(json.dumps(message).encode() + b"\n")
    return found


def _policy(outcome: Json, kinds: dict[str, str]) -> str:
    kind = kinds.get(outcome.get("optionId", ""), "")
    return "allow" if kind.startswith("allow") else "reject" if kind.startswith("reject") else "cancel"


def expected(recording: Recording) -> list[str]:
    """What the adapter makes of the recorded lines."""
    adapter = AcpAdapter(stamp=Stamp())
    adapter.prompt_id = recording.prompt_id
    events = [event for line in recording.said for event in adapter.feed(line)]
    return notation([*events, *adapter.close()], "acp")


async def played(agents: Agents, file: Path, recording: Recording) -> list[str]:
    """What comes of the recorded agent when it is run."""
    upstream = UpstreamConfig(
        wire="acp",
        command=[sys.executable, "-S", str(PLAYER), str(file.resolve())],  # it stands in another folder than we
        cwd="/",
        permission=recording.policy,  # type: ignore[arg-type]  # one of the three
        connect_timeout_ms=READY_MS,
        read_timeout_ms=READY_MS,
    )
    source = await agents.open(upstream, build(upstream, b'{"input":"Go on."}', {}), os.environ)
    try:
        return notation(await _turn(source, recording), "acp")
    finally:
        source.close()


async def _turn(source: AcpSource, recording: Recording) -> list[Event]:
    adapter = AcpAdapter(stamp=Stamp())
    source.introduce(adapter)
    events: list[Event] = []
    lines = -1  # the first tells the session, and is ours
    while not adapter.ended and (chunk := await source.read()):
        events += adapter.feed(chunk)
        lines += chunk.count(b"\n")
        if recording.cancel_after is not None and lines >= recording.cancel_after:
            source.cancel()
    return [*events, *adapter.close()]


async def check(folder: Path) -> dict[str, list[str]]:
    """Play every recording of the folder; the differences by its name, none for a turn that is as recorded."""
    agents = Agents(2)
    found: dict[str, list[str]] = {}
    try:
        for file in sorted(folder.glob("*.both.jsonl")):
            recording = read(file.read_text(encoding="utf-8").splitlines())
            wanted, came = expected(recording), await played(agents, file, recording)
            found[file.name] = [] if came == wanted else [f"- {one}" for one in wanted] + [f"+ {one}" for one in came]
    finally:
        await agents.close()
    return found


def main(folder: Path) -> int:
    """Play all, tell of each."""
    console = Console(width=120)
    found = asyncio.run(check(folder))
    if not found:
        console.print(f"no recordings of both sides in {folder}")
        return 1
    for name, lines in found.items():
        console.print(f"{'differs' if lines else 'equal  '}  {name}", *lines, sep="\n  ", highlight=False)
    return int(any(found.values()))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python -m scripts.recorded_turns FOLDER")
    sys.exit(main(Path(sys.argv[1])))
