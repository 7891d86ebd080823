"""The response object around a turn's output: its id is always ours, the rest is the upstream's as far as it told any."""

from collections.abc import Callable
from typing import Any

from pipeline.events import TERMINALS, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted

Terminal = TurnCompleted | TurnFailed | TurnCancelled
Json = dict[str, Any]

ENDS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}
CANCELLED = "cancelled"  # the official SDK knows no other end for it than incomplete
__all__ = ["CANCELLED", "ENDS", "TERMINALS", "Envelope", "Terminal"]


class Envelope:
    """What is known of the response object, from the request and from the upstream."""

    def __init__(self, turn: str) -> None:
        self.id = f"resp_{turn}"
        self.upstream_id: str | None = None
        self.restore: Callable[[Json], Json] = lambda response: response
        self._known: Json = {}
        self._base: Json = {
            "id": self.id,
            "object": "response",
            "created_at": 0,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": "",
            "output": [],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
        }

    def request(self, event: TurnStarted) -> None:
        """Take what the request said of the response."""
        self._known = dict(event.response or {})
        self._base |= self._known | {"id": self.id, "created_at": event.at // 1000, "status": "in_progress"}
        if event.model:
            self._base["model"] = event.model

    def opening(self, wire: Json | None, status: str) -> Json:
        """The response as a lifecycle event before the end shows it."""
        given = wire.get("response") if wire is not None else None
        if isinstance(given, dict):
            if self.upstream_id is None and isinstance(given.get("id"), str) and given["id"]:
                self.upstream_id = given["id"]
            if "type" not in (wire or {}):  # a wire without response objects tells some members of one
                given = {**self._base, **given}
            self._base = given = self._owned(given)
            if given.get("output") is not None:
                given["output"] = []
        else:
            given = dict(self._base)
        allowed = ("in_progress", "queued") if status == "created" else (status,)
        if given.get("status") not in allowed:
            given["status"] = allowed[0]
        return given

    def rename(self, response: Json) -> Json:
        """A response object of any other upstream event, under our id."""
        return self._owned(response)

    def running(self, output: list[Json]) -> Json:
        """The response before its end."""
        return {**self._base, "status": "in_progress", "output": output}

    def closing(self, event: Terminal, output: list[Json]) -> tuple[str, Json]:
        """The type of the public terminal and its response."""
        wire = event.wire or {}
        given = wire.get("response")
        response = self._owned(given) if isinstance(given, dict) else dict(self._base)
        if self.upstream_id is None and isinstance(given, dict) and isinstance(given.get("id"), str) and given["id"]:
            self.upstream_id = given["id"]
        response["output"] = output
        if event.usage is not None or not isinstance(given, dict):
            response["usage"] = event.usage
        if isinstance(event, TurnFailed):
            status = "failed"
            if not isinstance(response.get("error"), dict):
                response["error"] = {"code": event.error.code, "message": event.error.message}
        elif isinstance(event, TurnCancelled):
            status = "incomplete"
            response["incomplete_details"] = {"reason": CANCELLED}
        else:
            status = event.outcome
            if event.incomplete_details is not None:
                response["incomplete_details"] = event.incomplete_details
        response["status"] = status
        return ENDS[status], response

    def _owned(self, response: Json) -> Json:
        """A copy under our id, under our name for the response before it, with what the client declared."""
        owned = {**response, "id": self.id}
        previous = self._known.get("previous_response_id")
        if previous is not None:
            owned["previous_response_id"] = previous
        return self.restore(owned)
