"""Reading what a client sent, within bounds: the body, ids, headers and query values. Everything here raises `HttpError`."""

import asyncio
import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from workers.gateway.errors import HttpError
from workers.gateway.sse import parse_event_id

HEADER_BYTES_MAX = 32 * 1024  # all headers of a request together
BODY_S = 60.0
"""From a request's head to the end of its body; also a slow line brings some megabytes in it."""
NAME_CHARS_MAX = 256
_NAME = re.compile(r"[\x21-\x7b\x7d\x7e]{1,256}", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_WORDS = {"true": True, "1": True, "false": False, "0": False, "": False}

S = TypeVar("S", bound=msgspec.Struct)


def check_headers(request: Request) -> None:
    """Refuse a request whose headers are too large."""
    if sum(len(name) + len(value) for name, value in request.headers.raw) > HEADER_BYTES_MAX:
        raise HttpError(431, "headers_too_large", f"the headers may have {HEADER_BYTES_MAX} bytes in all")


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body; no more than the limit is ever held."""
    too_large = HttpError(413, "body_too_large", f"the body may have {limit} bytes", headers={"Connection": "close"})
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise HttpError(
            408, "body_too_slow", f"the body did not end within {BODY_S} s", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise HttpError(400, "body_incomplete", "the connection was closed before the body's end") from None
    return bytes(body)


async def read_object(request: Request, limit: int) -> dict[str, Any]:
    """Return the body's JSON object."""
    body = await read_body(request, limit)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "invalid_json", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise HttpError(400, "invalid_json", f"the body must be a JSON object, not {_kind(value)}")
    return value


def convert(value: Any, kind: type[S], where: str = "") -> S:
    """Return a JSON value as a struct, refused by its path when it is none."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        path = (where + text.partition(" - at `$.")[2].rstrip("`")).rstrip(".")
        raise HttpError(400, "invalid_value", text, param=path or None) from None


def name(value: Any, param: str) -> str:
    """Return a session, key or name: 1 to 256 printable ASCII characters, no space and no bar."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise HttpError(
            400,
            "invalid_value",
            f"{param} must be 1 to {NAME_CHARS_MAX} printable characters, no space or bar",
            param=param,
        )
    return value


def header(request: Request, key: str) -> str | None:
    """Return a header that holds a name, or None when it is absent."""
    value = request.headers.get(key)
    return None if value is None else name(value, key)


def flag(request: Request, param: str) -> bool:
    """Return a query value that says yes or no; absent is no."""
    value = request.query_params.get(param, "").lower()
    if value not in _WORDS:
        raise HttpError(400, "invalid_value", f"{param} must be true or false", param=param)
    return _WORDS[value]


def number(request: Request, param: str) -> int | None:
    """Return a query value that is a frame number, or None when it is absent."""
    value = request.query_params.get(param)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value):
        raise HttpError(400, "invalid_value", f"{param} must be a number of at most nine digits", param=param)
    return int(value)


def last_event_id(request: Request) -> tuple[int, str | None]:
    """Return number and hash of the last frame that the client holds; (-1, None) when it holds none.

    The header is the browser's own and newer than the query value, which a page gives when it connects anew by itself.
    """
    value = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
    if not value:
        return -1, None
    if (parsed := parse_event_id(value)) is not None:
        return parsed
    if _NUMBER.fullmatch(value):
        return int(value), None
    raise HttpError(400, "invalid_value", "Last-Event-ID must be an id that this stream sent", param="Last-Event-ID")


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), "null"
    )
