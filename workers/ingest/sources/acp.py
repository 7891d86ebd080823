"""An agent over its standard streams, by the Agent Client Protocol: one process and one session for one turn.

The protocol's own library keeps the calls and their answers apart. What the agent writes is read here, in whole lines, when the
turn has room for it: the lines behind the answer that opened the session are the turn's body, whenever they come, and of them the
library gets the calls and the answers. What stands before that answer is no part of the turn: an agent that loads a session tells its past there.

The agent asks before it acts; the configuration answers. It is offered neither files nor terminals of ours. A turn ends with
the response to our own prompt; after a cancel the agent has a moment to give it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection

from pipeline.events import ErrorInfo
from pipeline.limits import Limits
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.jsonl import LineSplitter
from pipeline.normalize.registry import Adapter
from workers.config import UpstreamConfig
from workers.ingest.failures import Phase, SourceError
from workers.ingest.sources.agent_process import AgentProcess

Json = dict[str, Any]
OPEN_CALLS = 256
"""Calls of an agent that wait for our answers; one that has more does not read them."""
AUTH_REQUIRED = -32000
_OPENING = frozenset({"session/new", "session/load"})
_BLOCKS = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_CHOICES = {"allow": ("allow_once", "allow_always"), "reject": ("reject_once", "reject_always"), "cancel": ()}


class Messages:
    """The library's transport over an agent's lines."""

    def __init__(self, process: AgentProcess) -> None:
        self.prompt_id: int | None = None
        self.prompted = asyncio.Event()
        self.flooded = False
        self.opened = False
        self._process = process
        self._inbox: asyncio.Queue[Json | None] = asyncio.Queue()
        self._open = 0
        self._opening: Any = None

    async def send(self, message: Json) -> None:
        """Write a message; the prompt's id is noted before the agent can answer it."""
        if message.get("method") == "session/prompt":
            self.prompt_id = message["id"]
        elif message.get("method") in _OPENING:
            self._opening = message["id"]
        elif "method" not in message:
            self._open -= 1
        await self._process.write(msgspec.json.encode(message) + b"\n")
        if message.get("id") == self.prompt_id and "method" in message:
            self.prompted.set()

    async def receive(self) -> Json | None:
        """Wait for the agent's next call or answer; None when it has gone."""
        return await self._inbox.get()

    async def close(self) -> None:
        """Nothing is held here."""

    def deliver(self, line: bytes) -> None:
        """Give the library a line that is a call or an answer; notifications and noise are the adapter's."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return
        if not isinstance(message, dict) or not isinstance(message.get("id"), (int, str)):
            return
        if "method" in message:
            self._open += 1
            self.flooded = self._open > OPEN_CALLS
        elif self._opening is not None and message["id"] == self._opening:
            self.opened = True
        self._inbox.put_nowait(message)

    def end(self) -> None:
        """The agent has gone: whoever waits for an answer hears of it."""
        self._inbox.put_nowait(None)


class AcpSource:
    """One agent in one turn."""

    def __init__(self, process: AgentProcess, upstream: UpstreamConfig, left: Callable[["AcpSource"], None]) -> None:
        self._process = process
        self._upstream = upstream
        self._left = left
        self._lines = LineSplitter(Limits())
        self._messages = Messages(process)
        self._connection = Connection(self._answer, self._messages)
        self._head = b""
        self._fault: SourceError | None = None
        self._session = ""
        self._prompting: asyncio.Task[Any] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._cancelled = False
        self._ended = False
        self.closed = False

    # what a runner needs

    def introduce(self, adapter: Adapter) -> None:
        """Say which response is the prompt's."""
        if isinstance(adapter, AcpAdapter):
            adapter.prompt_id = self._messages.prompt_id

    async def read(self) -> bytes:
        """Wait for whole lines."""
        if self._head:
            head, self._head = self._head, b""
            return head
        while True:
            if self._fault is not None:
                raise self._fault
            try:
                async with asyncio.timeout(self._upstream.read_timeout_ms / 1000):
                    lines, ended = await self._read_lines()
            except TimeoutError:
                message = f"the agent said nothing for {self._upstream.read_timeout_ms} ms"
                raise SourceError(ErrorInfo(code="upstream_stalled", message=message), Phase.BODY) from None
            if lines or ended:
                return b"".join(line + b"\n" for line in lines)

    def cancel(self) -> int | None:
        """Tell the agent to stop; from now on it is allowed nothing."""
        if self._prompting is None or self._upstream.cancel_wait_ms == 0:
            return None
        if not self._cancelled:
            self._cancelled = True
            self._telling = asyncio.create_task(self._tell_cancel())
        return self._upstream.cancel_wait_ms

    def close(self) -> None:
        """End the agent: one that has answered the prompt, or is going, may leave by itself."""
        if not self.closed:
            self.closed = True
            self._left(self)

    async def leave(self, *, at_once: bool = False) -> int:
        """Wait until the agent and all that it started have gone."""
        answered = self._ended or (self._prompting is not None and self._prompting.done())
        for task in (self._prompting, self._telling):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        try:
            return await self._process.leave(at_once=at_once or not answered)
        finally:
            self._messages.end()
            await self._connection.close()

    @property
    def last_words(self) -> str:
        """The end of the agent's standard error."""
        return self._process.last_words

    @property
    def pid(self) -> int:
        """The process that stands between us and the agent."""
        return self._process.pid

    def kill(self) -> None:
        """End the agent without waiting for it."""
        self._process.kill()

    # before the prompt

    async def begin(self, prompt: Json) -> None:
        """Greet the agent, open its session and send the prompt; raises SourceError."""
        pump = asyncio.create_task(self._pump())
        try:
            async with asyncio.timeout(self._upstream.connect_timeout_ms / 1000):
                await self._greet(prompt)
                await self._prompt(prompt)
        except TimeoutError:
            message = f"the agent was not ready within {self._upstream.connect_timeout_ms} ms"
            raise _unready("upstream_connect_failed", message) from None
        except (ConnectionError, RuntimeError):
            raise _unready("upstream_connect_failed", "the agent ended before it was ready") from None
        except RequestError as refused:
            code = "upstream_unauthorized" if refused.code == AUTH_REQUIRED else "upstream_bad_response"
            raise _refused(code, f"the agent refused to begin: {refused}"[:2000]) from None
        finally:
            pump.cancel()

    async def _greet(self, prompt: Json) -> None:
        nothing = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        asked = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": nothing}
        greeting = await self._connection.send_request("initialize", asked)
        greeting = greeting if isinstance(greeting, dict) else {}
        if greeting.get("protocolVersion") != PROTOCOL_VERSION:
            message = f"the agent speaks version {greeting.get('protocolVersion')!r} of the protocol"
            raise _refused("upstream_bad_response", message[:200])
        able = greeting.get("agentCapabilities")
        able = able if isinstance(able, dict) else {}
        _check_able(prompt, able)
        where = {"cwd": self._upstream.cwd, "mcpServers": []}
        session = prompt.get("session")
        if session is not None:
            await self._connection.send_request("session/load", {**where, "sessionId": session})
        else:
            opened = await self._connection.send_request("session/new", where)
            session = opened.get("sessionId") if isinstance(opened, dict) else None
        if not isinstance(session, str) or not session:
            raise _refused("upstream_bad_response", "the agent opened no session")
        self._session = session
        told = {"jsonrpc": "2.0", "id": "session", "result": {"sessionId": session}}
        self._head = msgspec.json.encode(told) + b"\n" + self._head  # for the adapter: who answers

    async def _prompt(self, prompt: Json) -> None:
        asked = {"sessionId": self._session, "prompt": prompt.get("prompt")}
        self._prompting = asyncio.create_task(self._connection.send_request("session/prompt", asked))
        self._prompting.add_done_callback(_heard)
        sent = asyncio.create_task(self._messages.prompted.wait())
        try:
            await asyncio.wait({self._prompting, sent}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sent.cancel()
        if not self._messages.prompted.is_set():
            self._prompting.result()

    async def _pump(self) -> None:
        """Read for the library alone, to the answer that opens the session; what came in one piece with it, behind it, is the turn's."""
        ended = False
        while not ended and self._fault is None and not self._messages.opened:
            _, ended = await self._read_lines()

    # while it runs

    async def _read_lines(self) -> tuple[list[bytes], bool]:
        chunk = await self._process.read()
        lines = self._lines.feed(chunk) if chunk else self._lines.close()
        for number, line in enumerate(lines):
            was_opened = self._messages.opened
            self._messages.deliver(line)
            if self._messages.opened and not was_opened:
                self._head = b"".join(behind + b"\n" for behind in lines[number + 1 :])
        if not chunk:
            self._ended = True
            self._messages.end()
        if self._lines.exceeded is not None or self._messages.flooded:
            self._messages.end()
            code = self._lines.exceeded or "upstream_bad_response"
            message = "the agent wrote a line without end" if self._lines.exceeded else "the agent reads no answers"
            self._fault = SourceError(ErrorInfo(code=code, message=message), Phase.BODY)
        return lines, not chunk

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Json | None:
        if is_notification:
            return None
        if method == "session/request_permission":
            return self._decide(params if isinstance(params, dict) else {})
        raise RequestError.method_not_found(method)

    def _decide(self, params: Json) -> Json:
        """Answer a question for permission as the configuration says; where that is no choice, as if nobody answered."""
        wanted = () if self._cancelled else _CHOICES[self._upstream.permission]
        options = params.get("options")
        offered = {
            option["kind"]: option["optionId"]
            for option in (options if isinstance(options, list) else ())
            if isinstance(option, dict)
            and isinstance(option.get("kind"), str)
            and isinstance(option.get("optionId"), str)
        }
        for kind in wanted:
            if kind in offered:
                return {"outcome": {"outcome": "selected", "optionId": offered[kind]}}
        return {"outcome": {"outcome": "cancelled"}}

    async def _tell_cancel(self) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._connection.send_notification("session/cancel", {"sessionId": self._session})


def _unready(code: str, message: str) -> SourceError:
    """The agent was not there: another one may be."""
    return SourceError(ErrorInfo(code=code, message=message), Phase.CONNECT)


def _refused(code: str, message: str) -> SourceError:
    """The agent was there and cannot do it: another one could not either."""
    return SourceError(ErrorInfo(code=code, message=message), Phase.STATUS)


def _check_able(prompt: Json, able: Json) -> None:
    """Refuse by name what this agent cannot take."""
    if prompt.get("session") is not None and able.get("loadSession") is not True:
        raise _refused("upstream_request_unsupported", "previous_response_id: the agent loads no earlier sessions")
    takes = able.get("promptCapabilities")
    takes = takes if isinstance(takes, dict) else {}
    blocks = prompt.get("prompt")
    for block in blocks if isinstance(blocks, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _BLOCKS and takes.get(_BLOCKS[kind]) is not True:
            raise _refused("upstream_request_unsupported", f"input: the agent takes no {kind}")


def _heard(task: asyncio.Task[Any]) -> None:
    """The adapter reads the answer; here nobody does."""
    if not task.cancelled():
        task.exception()
