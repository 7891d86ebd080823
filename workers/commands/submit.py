"""`foldline submit` and `foldline tail`: the gateway's native interface from a terminal.

A submit carries an idempotency key, so that repeating it after a lost answer gives the same turn. A tail survives the gateway: it comes
back with the id of the last event that it printed, and goes on with the next.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import typer

from pipeline.normalize.sse import SseEvent, SseSplitter
from workers.commands.given import STANDARD_INPUT, read_input, read_text
from workers.commands.output import Json, show_json
from workers.commands.session import EXIT_REFUSED, fail, read_config, run_async
from workers.observability.listening import url_of
from workers.runtime import entropy

KEY_VARIABLE = "FOLDLINE_API_KEY"
TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
AGAIN_S = 0.5
GIVE_UP = 60  # attempts in a row without an event: half a minute without a gateway
READ_TIMEOUT_S = 60.0  # the gateway sends a comment every 15 s

HINTS = {
    "upstream_needed": "--upstream says which; those of the gateway's configuration stand under [upstreams]",
    "upstream_unknown": "those of the gateway's configuration stand under [upstreams]",
    "target_unknown": "those of the gateway's configuration stand under [targets]",
}
"""What the gateway's words do not say to somebody at a terminal, by its code."""

Gateway = Annotated[str, typer.Option(metavar="URL", help="Its address, http://HOST:PORT; as configured by default.")]


@dataclass(frozen=True)
class Door:
    """The gateway as a client sees it."""

    url: str
    headers: dict[str, str]


class NothingLeftError(Exception):
    """The stream was read to its end before."""


class View:
    """How a stream is printed: the text as it comes, every frame as JSON, or the stream as it is."""

    def __init__(self, *, frames: bool, as_json: bool) -> None:
        self._frames = frames
        self._as_json = as_json
        self.ending: dict[str, Any] | None = None

    def is_over(self) -> bool:
        """Whether the stream has told its end."""
        return self.ending is not None

    def show(self, event: SseEvent) -> None:
        """Print one event."""
        body = msgspec.json.decode(event.data)
        if event.event in TERMINALS or event.event == "stream_error":
            self.ending = body
        if self._frames:
            _write(f"event: {event.event}\ndata: {event.text}\n\n")
        elif self._as_json:
            _write(event.text + "\n")
        elif event.event in {"response.output_text.delta", "response.refusal.delta"}:
            _write(body["delta"])

    def close(self) -> int:
        """Say how it ended, on stderr; returns the exit code."""
        if self.ending is None or self.ending.get("type") == "stream_error":
            told = self.ending or {
                "code": "cut",
                "message": "the gateway did not come back; the turn's end was not read",
            }
            sys.stderr.write(f"\nfoldline: {told.get('code')}: {told.get('message')}\n")
            return 1
        response = self.ending["response"]
        if not self._frames and not self._as_json:
            _write("\n")
        error = response.get("error") or {}
        details = error.get("message") or (response.get("incomplete_details") or {}).get("reason") or ""
        sys.stderr.write(f"foldline: {response.get('status')}{': ' if details else ''}{details}\n")
        return 0 if response.get("status") != "failed" else 1


def submit(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to ask; - reads standard input.")] = "",
    *,
    upstream: Annotated[str, typer.Option(metavar="UPSTREAM", help="Its name in the configuration.")] = "",
    model: Annotated[str, typer.Option(metavar="MODEL", help="The model to ask for.")] = "",
    request: Annotated[
        str, typer.Option(metavar="FILE", help="A file with the whole request as JSON, instead of TEXT.")
    ] = "",
    session: Annotated[str, typer.Option(metavar="SESSION", help="The conversation that it belongs to.")] = "",
    target: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="A target's name; may be given again.")
    ] = None,
    parent: Annotated[str, typer.Option(metavar="TURN", help="The turn whose child it is.")] = "",
    serial: Annotated[bool, typer.Option("--serial", help="Wait for the session's earlier turns.")] = False,
    key: Annotated[str, typer.Option(metavar="KEY", help="The idempotency key; drawn when not given.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Print its text as it comes.")] = False,
    gateway: Gateway = "",
    as_json: Json = False,
) -> None:
    """Submit a turn and print its id."""
    body: dict[str, Any] = {
        "request": _request(text, request, model),
        "idempotency_key": key or f"cli-{entropy.hex24()}",
        **{name: value for name, value in (("upstream", upstream), ("session", session), ("parent", parent)) if value},
        **({"targets": target} if target else {}),
        **({"serial": True} if serial else {}),
    }
    door = _door(gateway)
    answer = run_async(_post(door, "/v1/turns", body))
    if follow:
        sys.stderr.write(f"foldline: turn {answer['id']}\n")
        raise SystemExit(run_async(_follow(door, answer["id"], -1, View(frames=False, as_json=as_json))))
    show_json(answer) if as_json else _write(f"{answer['id']}\n")


def tail(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")],
    *,
    after: Annotated[int, typer.Option(min=-1, metavar="N", help="The number of the last frame that you have.")] = -1,
    frames: Annotated[bool, typer.Option("--frames", help="Print the stream as it is.")] = False,
    gateway: Gateway = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print every event as JSON, one a line.")] = False,
) -> None:
    """Print a turn's public stream as it comes: its text, or with --frames or --json all of it."""
    code = run_async(_follow(_door(gateway), turn, after, View(frames=frames, as_json=as_json)))
    raise SystemExit(code)


def _request(text: str, file: str, model: str) -> dict[str, Any]:
    if bool(text) == bool(file):
        fail("submit: either TEXT or --request FILE is expected", EXIT_REFUSED)
    if file:
        try:
            request = msgspec.json.decode(read_input("submit", file), type=dict[str, Any])
        except msgspec.DecodeError as error:
            fail(f"submit: {file}: {error}", EXIT_REFUSED)
    else:
        request = {"input": read_text("submit", text) if text == STANDARD_INPUT else text}
    return {**request, "model": model} if model else request


def address_of(gateway: str) -> str:
    """The gateway's address that `--gateway` or the configuration says; ends the command where it is none."""
    url = gateway or _configured()
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        fail(f"--gateway: http://HOST:PORT is expected, found {url!r}", EXIT_REFUSED)
    return url.rstrip("/")


def _configured() -> str:
    config = read_config().gateway
    return url_of(config.host, config.port)


def _door(gateway: str) -> Door:
    key = os.environ.get(KEY_VARIABLE)
    return Door(address_of(gateway), {"Authorization": f"Bearer {key}"} if key else {})


async def _post(door: Door, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {**door.headers, "Content-Type": "application/json"}
    for attempt in range(GIVE_UP):
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.post(door.url + path, data=msgspec.json.encode(body)) as answer,
            ):
                told = await answer.read()
                if answer.status < 300:
                    return msgspec.json.decode(told, type=dict[str, Any])
                if answer.status != 503:  # the gateway asks to repeat with the same key
                    fail(_message(told, answer.status))
        except aiohttp.ClientConnectionError as error:
            if attempt == 0:
                tell_absence(door.url, error)
        await asyncio.sleep(AGAIN_S)
    raise SystemExit(
        f"foldline: {door.url} does not answer; `foldline up` or `foldline gateway` starts one, --gateway names another"
    )


async def _follow(door: Door, turn: str, after: int, view: View) -> int:
    last_id = "" if after < 0 else str(after)
    vain = 0
    while not view.is_over() and vain < GIVE_UP:
        before = last_id
        try:
            async for event in _events(door, turn, last_id):
                view.show(event)
                last_id = event.id or last_id
                if view.is_over():
                    break
        except NothingLeftError:
            return 0
        except (aiohttp.ClientError, TimeoutError) as error:  # the loop comes back to it or to its successor
            if vain == 0 and last_id == before:
                tell_absence(door.url, error)
        if not view.is_over():
            vain = 0 if last_id != before else vain + 1
            await asyncio.sleep(AGAIN_S)
    return view.close()


async def _events(door: Door, turn: str, last_id: str) -> AsyncIterator[SseEvent]:
    headers = {**door.headers, "Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=READ_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
        session.get(f"{door.url}/v1/turns/{turn}/events") as answer,
    ):
        if answer.status == 204:
            raise NothingLeftError
        if answer.status == 503:
            return
        if answer.status != 200:
            fail(_message(await answer.read(), answer.status))
        splitter = SseSplitter()
        async for chunk in answer.content.iter_any():
            for event in splitter.feed(chunk):
                yield event


def tell_absence(url: str, error: Exception) -> None:
    """Say on stderr that the gateway is waited for."""
    # without the client's own "Cannot connect to host … ssl:default", which is said of addresses without TLS, too
    why = error.strerror if isinstance(error, aiohttp.ClientConnectorError) else str(error)
    sys.stderr.write(f"foldline: {url} does not answer ({why or type(error).__name__}); trying again\n")


def _message(body: bytes, status: int) -> str:
    with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
        error = msgspec.json.decode(body)["error"]
        said = HINTS.get(error.get("code")) or (f"the variable {KEY_VARIABLE} holds ours" if status == 401 else "")
        hint = f" ({said})" if said else ""
        return f"{status} {error.get('code')}: {error['message']}{hint}"
    return f"the gateway answered {status}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
