"""The upstream request of a turn, built from its record and the configuration.

The key is read here, from the variable that the configuration names, and goes into one header. It must never reach a log, an
exception's text or Redis; so the request shows neither headers nor body when it is printed.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from workers.config import UpstreamConfig
from workers.config.credentials import login_problem, token_problem
from workers.upstream import DIALECTS, VERBATIM, UnsupportedError, translate

OURS = "foldline"
"""The member of a request that is for us; `{"verbatim": true}` in it says that the rest is the upstream's own form already."""
NOT_OURS = frozenset({"background", "stream", OURS})
"""Members that say how *our* client wants its answer; upstream we always stream and never leave."""

TRUE = msgspec.Raw(b"true")
MODEL = "{model}"
"""Where the model stands in a path."""


class RequestError(Exception):
    """The request of a turn cannot be built: the configuration or the record does not allow it."""

    code = "upstream_not_configured"


class RequestUnsupportedError(RequestError):
    """The upstream's wire has no form for something in the request."""

    code = "upstream_request_unsupported"


@dataclass(frozen=True, kw_only=True)
class UpstreamRequest:
    """One request, ready to be sent as often as the retry rules allow."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    ca_file: str = ""
    proxy: str = ""
    proxy_headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def build(upstream: UpstreamConfig, request: str | bytes, environ: Mapping[str, str]) -> UpstreamRequest:
    """Build the request in the form of the upstream's wire; what that has no form for is refused by name.

    On the Responses wire, and where the request is verbatim, members pass through byte for byte.
    """
    try:
        members = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise RequestError(f"the turn's request is no JSON object: {error}") from None
    dialect = DIALECTS.get(upstream.wire)
    model = _word(members.get("model"))
    if _is_verbatim(members):
        body = {name: value for name, value in members.items() if name != OURS} | {"stream": TRUE}
        if dialect is not None and MODEL in dialect.path:
            body = {name: value for name, value in body.items() if name not in {"model", "stream"}}
    elif dialect is None or dialect.translate is None:
        body = {name: value for name, value in members.items() if name not in NOT_OURS} | {"stream": TRUE}
        if upstream.resumable:  # only a stored response that runs by itself can be read again
            body["background"] = body["store"] = TRUE
    else:
        try:
            made = translate(upstream.wire, msgspec.json.decode(request))
        except UnsupportedError as refused:
            raise RequestUnsupportedError(str(refused)) from None
        body = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in made.items()}
    headers = {**_headers(upstream, environ), "Content-Type": "application/json"}
    url = _url(upstream, model)
    return UpstreamRequest(url=url, headers=headers, body=msgspec.json.encode(body), **_way(upstream, environ))


def _word(value: msgspec.Raw | None) -> str:
    word = msgspec.json.decode(value) if value is not None else None
    return word if isinstance(word, str) else ""


def _is_verbatim(members: Mapping[str, msgspec.Raw]) -> bool:
    ours = msgspec.json.decode(members[OURS]) if OURS in members else None
    return isinstance(ours, dict) and ours.get(VERBATIM) is True


def build_reattach(upstream: UpstreamConfig, response_id: str, environ: Mapping[str, str]) -> UpstreamRequest:
    """Ask for the stream of a response that runs already, from its first event."""
    url = f"{_url(upstream)}/{quote(response_id, safe='')}?stream=true"
    headers = _headers(upstream, environ)
    return UpstreamRequest(method="GET", url=url, headers=headers, body=None, **_way(upstream, environ))


def build_cancel(upstream: UpstreamConfig, response_id: str, environ: Mapping[str, str]) -> UpstreamRequest:
    """Tell an upstream whose responses run by themselves to end one."""
    url = f"{_url(upstream)}/{quote(response_id, safe='')}/cancel"
    return UpstreamRequest(url=url, headers=_headers(upstream, environ), body=b"", **_way(upstream, environ))


def _url(upstream: UpstreamConfig, model: str = "") -> str:
    dialect = DIALECTS.get(upstream.wire, DIALECTS["responses"])
    path = upstream.path or dialect.path
    if MODEL in path:
        if not model:
            raise RequestError("the request names no model, which this upstream's path needs")
        path = path.replace(MODEL, quote(model, safe=""))
    return upstream.base_url.rstrip("/") + path


def _way(upstream: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, Any]:
    """Whom the upstream is reached through, and whose word is taken that it is the upstream."""
    if not upstream.proxy_auth_env:
        return {"ca_file": upstream.ca_file, "proxy": upstream.proxy}
    login = environ.get(upstream.proxy_auth_env, "")
    if problem := login_problem(login):
        raise RequestError(f"the variable {upstream.proxy_auth_env} holds no login: {problem}")
    said = b64encode(login.encode()).decode()
    return {
        "ca_file": upstream.ca_file,
        "proxy": upstream.proxy,
        "proxy_headers": {"Proxy-Authorization": f"Basic {said}"},
    }


def _headers(upstream: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The wire's own headers, then those of the configuration, then what we need to read the answer."""
    dialect = DIALECTS.get(upstream.wire, DIALECTS["responses"])
    configured = {name.lower() for name in upstream.headers}
    headers = {
        **{name: value for name, value in dialect.headers.items() if name.lower() not in configured},
        **upstream.headers,
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",  # a compressed stream is held back by its compressor
        "User-Agent": "foldline",
    }
    if upstream.api_key_env:
        key = environ.get(upstream.api_key_env, "")
        if not key:
            raise RequestError(f"the variable {upstream.api_key_env} holds no key")
        if problem := token_problem(key):
            raise RequestError(f"the variable {upstream.api_key_env} holds no key: {problem}")
        headers |= dialect.key_headers(key)
    return headers
