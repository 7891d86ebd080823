"""Play an agent from a recording of both sides: `python scripts/recorded_agent.py FILE`, spoken to on its standard streams.

It says what the recorded agent said, in the recorded order, and waits wherever the recorded client spoke. Its answers go to the calls that
it is really sent, whatever their ids are. It plays one turn: to the answer of the first prompt and what came behind it.
Of the standard library alone, so that it starts in a moment.
"""

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Player:
    """The recording, and what has been heard of the client."""

    def __init__(self, lines: list[Json]) -> None:
        self._lines = lines
        self._ids: dict[Any, Any] = {}  # of the client's calls, as recorded, by what they really are
        self._prompt: Any = None
        self._early: list[Json] = []  # what the client said before it was waited for

    def play(self) -> None:
        """Speak and listen to the end of the first turn; then wait for the client to leave."""
        for line in self._lines:
            message = line["msg"]
            if line["from"] == "agent":
                self._say(message)
            elif message.get("method") == "session/prompt" and self._prompt is not None:
                break
            else:
                self._hear(message)
        while sys.stdin.readline():
            pass

    def _say(self, message: Json) -> None:
        if "method" not in message and message.get("id") is not None:
            message = {**message, "id": self._ids[message["id"]]}
        sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def _hear(self, expected: Json) -> None:
        """Wait until the client says what it said when it was recorded; its answers may be others."""
        method = expected.get("method")
        heard, self._early = self._early, []
        while message := heard.pop(0) if heard else self._read():
            if message.get("method") != method or (method is None and message.get("id") != expected["id"]):
                self._early.append(message)
                continue
            self._early += heard
            if "id" in expected and method is not None:
                self._ids[expected["id"]] = message["id"]
            if method == "session/prompt":
                self._prompt = expected["id"]
            return
        raise SystemExit("the client left")

    def _read(self) -> Json | None:
        line = sys.stdin.readline()
        message: Json | None = json.loads(line) if line else None
        return message


if __name__ == "__main__":
    recording = Path(sys.argv[1]).read_text(encoding="utf-8")
    Player([json.loads(line) for line in recording.splitlines() if line.strip()]).play()
