"""An agent that plays a recording: it greets, opens a session, and says on the prompt what the recorded agent said.

Run by its path, with a file of lines; of the standard library alone, so that it starts quickly. A call of its own (for permission,
for a file) waits for the client's answer, as the recorded one did; the recorded answer to the prompt goes out under the prompt's own id.
"""

import json
import sys
from pathlib import Path
from typing import Any

PROMPT = "PROMPT"
"""Stands in the lines to play for the id of the prompt."""


def play(lines: list[bytes]) -> None:
    """Serve one client to the end of its input, or of a recording whose agent has gone without an answer to the prompt."""
    goes = not any(PROMPT.encode() in line for line in lines)
    while (message := _next()) is not None:
        method, ident = message.get("method"), message.get("id")
        if method == "initialize":
            _answer(ident, {"protocolVersion": 1, "agentCapabilities": {}})
        elif method == "session/new":
            _answer(ident, {"sessionId": "recorded"})
        elif method == "session/prompt":
            for line in lines:
                _say(line.replace(b'"' + PROMPT.encode() + b'"', json.dumps(ident).encode()))
                _wait_if_it_is_a_call(line)
            if goes:
                return


def _wait_if_it_is_a_call(line: bytes) -> None:
    try:
        said = json.loads(line)
    except ValueError:
        return
    if not isinstance(said, dict) or "method" not in said or "id" not in said:
        return
    while (message := _next()) is not None and message.get("id") != said["id"]:
        pass


def _next() -> dict[str, Any] | None:
    line = sys.stdin.buffer.readline()
    message: dict[str, Any] | None = json.loads(line) if line else None
    return message


def _answer(ident: object, result: dict[str, Any]) -> None:
    _say(json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode())


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    play(Path(sys.argv[1]).read_bytes().split(b"\n"))
