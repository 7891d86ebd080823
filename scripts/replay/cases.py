"""What there is to play: the turns of a folder of streams, each with its wire and what is to be read of it.

A folder is a corpus (with `INDEX.tsv`) or one folder for each wire. An agent's recording may hold several turns, and has a second file
with both directions; each turn of each file is a case.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from pipeline.turn import Decoded, collect, decode
from scripts.conformance import rows_of
from scripts.replay.agent import PROMPT
from scripts.wire_checks import BOTH, prompts

Json = dict[str, Any]
AGENT = "acp"
SUFFIXES = {".sse", ".jsonl"}
HANDSHAKE = ("protocolVersion", "sessionId")
"""Members of the answers that an agent gives before it is prompted."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One turn: the bytes that the upstream sends, for an agent its lines with `PROMPT` for the prompt's id."""

    file: str
    wire: str
    data: bytes = field(repr=False)

    def expected(self, turn: str) -> Decoded:
        """What these bytes are by the recordings' driver, for a turn of this id."""
        if self.wire != AGENT:
            return decode([self.data], self.wire, turn=turn)
        adapter = AcpAdapter(stamp=Stamp())
        adapter.prompt_id = PROMPT
        opened = {"jsonrpc": "2.0", "id": "session", "result": {"sessionId": "recorded"}}
        events = adapter.feed(json.dumps(opened).encode() + b"\n" + self.data)
        return collect(events + adapter.close(), turn=turn)


def cases(folder: Path) -> list[Case]:
    """Every turn of the folder's files, in their order."""
    index = folder / "INDEX.tsv"
    if index.exists():
        files = [(row["file"], row["wire"]) for row in rows_of(index)]
    else:
        files = [
            (str(path.relative_to(folder)), path.parent.name) for path in sorted(folder.glob("*/*")) if _is_stream(path)
        ]
    return [case for file, wire in files for case in _cases(folder, file, wire)]


def _is_stream(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.stem.count(".") == 0


def _cases(folder: Path, file: str, wire: str) -> Iterator[Case]:
    path = folder / file
    if wire != AGENT:
        yield Case(file=file, wire=wire, data=path.read_bytes())
        return
    turns = list(_both(path) if file.endswith(BOTH) else _alone(path))
    for number, lines in enumerate(turns):
        name = f"{file}#{number + 1}" if len(turns) > 1 else file
        yield Case(file=name, wire=wire, data=b"".join(line + b"\n" for line in lines))


def _both(path: Path) -> Iterator[list[bytes]]:
    """The agent's lines from each prompt to the next."""
    ids: list[Any] = []
    turn: list[bytes] = []
    for line in path.read_bytes().splitlines():
        one = json.loads(line)
        message = one["msg"]
        if message.get("method") == "session/prompt":
            if ids:
                yield turn
            ids, turn = [message["id"]], []
        elif one["from"] == "agent" and ids:
            turn.append(_played(json.dumps(message).encode(), ids))
    yield turn


def _alone(path: Path) -> Iterator[list[bytes]]:
    """The agent's lines up to each end of a turn; without the other direction there is one."""
    both = path.with_suffix("").with_suffix(BOTH)
    ids: list[Any] = list(prompts(both)) if both.exists() else []
    left, turn = len(ids), []
    for line in path.read_bytes().split(b"\n"):
        message = _message(line)
        result = message.get("result")
        if isinstance(result, dict) and any(member in result for member in HANDSHAKE):
            continue
        if line.strip():
            turn.append(_played(line, ids))
        if left > 1 and message.get("id") == ids[-left] and "method" not in message:
            yield turn
            left, turn = left - 1, []
    yield turn


def _message(line: bytes) -> Json:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _played(line: bytes, ids: list[Any]) -> bytes:
    """A line with the prompt's id, where it answers the prompt; of a recording without one every answer does."""
    message = _message(line)
    if "id" not in message or "method" in message or (ids and message["id"] not in ids):
        return line
    return json.dumps({**message, "id": PROMPT}).encode()
