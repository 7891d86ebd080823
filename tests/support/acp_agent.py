"""An ACP agent for tests, on the protocol's own library: what it does is what the prompt's first word says.

Run by its path, with the path of this environment's packages known to the interpreter that runs it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class ScriptedAgent:
    """One method for each word; the answer is the stop reason."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._session = ""
        self._stopped = asyncio.Event()

    def on_connect(self, connection: Any) -> None:
        """Keep the way back to the client."""
        self._connection = connection

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Greet; `--refuse` is an agent that nobody may use, `--hang` one that never gets ready."""
        if "--refuse" in sys.argv:
            raise acp.RequestError.auth_required()
        if "--hang" in sys.argv:
            await asyncio.Event().wait()
        able = schema.AgentCapabilities(load_session="--loads" in sys.argv)
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=able)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        """Open the session; what is said before the prompt is no part of the turn."""
        session = f"session-{os.getpid()}"
        await self._update(session, acp.update_agent_message_text(f"welcome to {cwd}"))
        return acp.NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> None:
        """Load an earlier session, and repeat what was said in it."""
        await self._update(session_id, acp.update_agent_message_text(f"earlier in {cwd}"))

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        """Do what the first word says; any other prompt is said back."""
        self._session = session_id
        text = "".join(getattr(block, "text", "") for block in prompt)
        word, rest = [*text.split(" ", 1), ""][:2]
        action: Callable[[str], Awaitable[Any]] | None = getattr(self, f"do_{word}", None)
        reason = await (action or self._echo)(rest if action is not None else text)
        return acp.PromptResponse(stop_reason=reason or "end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Hear that the client wants no more."""
        del session_id
        self._stopped.set()

    # what it can do

    async def do_tool(self, _: str) -> None:
        """Use a tool and say so."""
        await self._say("Let me ", "look. ")
        await self._send(
            acp.start_tool_call("t1", "Read notes", kind="read", status="pending", raw_input={"path": "n"})
        )
        await self._send(acp.update_tool_call("t1", status="in_progress"))
        content = [acp.tool_content(acp.text_block("# Notes"))]
        await self._send(acp.update_tool_call("t1", status="completed", content=content))
        await self._say("It says notes.")

    async def do_permission(self, _: str) -> None:
        """Ask before acting, and tell what was answered."""
        await self._send(acp.start_tool_call("t1", "Edit notes", kind="edit", status="pending"))
        call = schema.ToolCallUpdate(tool_call_id="t1", title="Edit notes", kind="edit", status="pending")
        answer = await self._connection.request_permission(session_id=self._session, tool_call=call, options=OPTIONS)
        chosen = getattr(answer.outcome, "option_id", answer.outcome.outcome)
        await self._send(acp.update_tool_call("t1", status="completed" if chosen == "yes" else "failed"))
        await self._say(f"Answered: {chosen}.")

    async def do_wait(self, _: str) -> str:
        """Work until cancelled; asks once more on the way out."""
        await self._say("Working.")
        await self._send(acp.start_tool_call("t1", "Work", kind="execute", status="in_progress"))
        await self._stopped.wait()
        call = schema.ToolCallUpdate(tool_call_id="t1", title="Work")
        answer = await self._connection.request_permission(session_id=self._session, tool_call=call, options=OPTIONS)
        await self._say(f" Stopped: {answer.outcome.outcome}.")
        return "cancelled"

    async def do_finish(self, _: str) -> None:
        """Be told to stop when all is done already."""
        await self._say("All ")
        await self._stopped.wait()
        await self._say("done.")

    async def do_stubborn(self, _: str) -> None:
        """Never stop."""
        await self._say("Going on.")
        await asyncio.Event().wait()

    async def do_crash(self, _: str) -> None:
        """Die in the middle of a sentence, with last words."""
        await self._say("Half a sen")
        sys.stderr.write("x" * 100_000 + "the last words\n")
        sys.stderr.flush()
        os._exit(3)

    async def do_fail(self, _: str) -> None:
        """Fail in the middle of a sentence, with a reason."""
        await self._say("Half a sen")
        await self._send(acp.start_tool_call("t1", "Work", kind="execute", status="in_progress", raw_input={"n": 1}))
        raise acp.RequestError.internal_error({"message": "the stream was disconnected"})

    async def do_leave(self, _: str) -> None:
        """Leave a tool without its end."""
        await self._say("Well. ")
        await self._send(acp.start_tool_call("t1", "Work", kind="execute", status="pending", raw_input={"n": 1}))

    async def do_limit(self, _: str) -> str:
        """Come to the limit."""
        await self._say("Half a sen")
        return "max_tokens"

    async def do_children(self, _: str) -> None:
        """Leave processes behind: one in the group, one with a session of its own."""
        for apart in (False, True):
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=apart)
            await self._say(f"{child.pid} ")
        await self._say(f"{os.getpid()} ")
        await asyncio.Event().wait()

    async def do_environment(self, _: str) -> None:
        """Tell what there is to see."""
        await self._say(json.dumps({"cwd": str(Path.cwd()), "names": sorted(os.environ)}))

    async def do_noise(self, _: str) -> None:
        """Write a log line where only messages may be."""
        await self._say("before ")
        sys.stdout.write("\x1b[2m INFO \x1b[0m noise\n")
        sys.stdout.flush()
        await self._say("after")

    async def do_read(self, _: str) -> None:
        """Ask for a file of the client's, which offers none."""
        try:
            await self._connection.read_text_file(session_id=self._session, path="/etc/hostname")
        except acp.RequestError as refused:
            await self._say(f"refused {refused.code}")

    async def do_long(self, rest: str) -> None:
        """Say a great deal."""
        for number in range(int(rest)):
            await self._say(f"{number} " + "word " * 20 + "\n\n")

    async def _echo(self, text: str) -> None:
        for word in text.split():
            await self._say(f"{word} ")

    async def _say(self, *texts: str) -> None:
        for text in texts:
            await self._send(acp.update_agent_message_text(text))

    async def _send(self, update: Any) -> None:
        await self._update(self._session, update)

    async def _update(self, session: str, update: Any) -> None:
        await self._connection.session_update(session_id=session, update=update)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ScriptedAgent()))  # type: ignore[arg-type]  # as much of an agent as is used
