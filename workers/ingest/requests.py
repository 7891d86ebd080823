"""The upstream request of a turn, built from its record and the configuration.

The key is read here, from the variable that the configuration names, and goes into one header. It must never reach a log, an
exception's text or Redis; so the request shows neither headers nor body when it is printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from workers.config import UpstreamConfig

NOT_OURS = frozenset({"background", "stream", "stream_options"})
"""Members that say how *our* client wants its answer; upstream we always stream and never leave."""

TRUE = msgspec.Raw(b"true")


class RequestError(Exception):
    """The request of a turn cannot be built: the configuration or the record does not allow it."""


@dataclass(frozen=True, kw_only=True)
class UpstreamRequest:
    """One request, ready to be sent as often as the retry rules allow."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


def build(upstream: UpstreamConfig, request: str | bytes, environ: Mapping[str, str]) -> UpstreamRequest:
    """Build the request; members that we do not know pass through byte for byte."""
    try:
        members = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise RequestError(f"the turn's request is no JSON object: {error}") from None
    body = {name: value for name, value in members.items() if name not in NOT_OURS}
    body["stream"] = TRUE
    if upstream.resumable:  # only a stored response that runs by itself can be read again
        body["background"] = body["store"] = TRUE
    headers = {**_headers(upstream, environ), "Content-Type": "application/json"}
    return UpstreamRequest(url=_url(upstream), headers=headers, body=msgspec.json.encode(body))


def build_reattach(upstream: UpstreamConfig, response_id: str, environ: Mapping[str, str]) -> UpstreamRequest:
    """Ask for the stream of a response that runs already, from its first event."""
    url = f"{_url(upstream)}/{quote(response_id, safe='')}?stream=true"
    return UpstreamRequest(method="GET", url=url, headers=_headers(upstream, environ), body=None)


def build_cancel(upstream: UpstreamConfig, response_id: str, environ: Mapping[str, str]) -> UpstreamRequest:
    """Tell an upstream whose responses run by themselves to end one."""
    url = f"{_url(upstream)}/{quote(response_id, safe='')}/cancel"
    return UpstreamRequest(url=url, headers=_headers(upstream, environ), body=b"")


def _url(upstream: UpstreamConfig) -> str:
    return upstream.base_url.rstrip("/") + upstream.path


def _headers(upstream: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {
        **upstream.headers,
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",  # a compressed stream is held back by its compressor
        "User-Agent": "foldline",
    }
    if upstream.api_key_env:
        key = environ.get(upstream.api_key_env, "")
        if not key:
            raise RequestError(f"the variable {upstream.api_key_env} holds no key")
        headers["Authorization"] = f"Bearer {key}"
    return headers
