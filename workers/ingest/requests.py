"""The upstream request of a turn, built from its record and the configuration.

The key is read here, from the variable that the configuration names, and goes into one header. It must never reach a log, an
exception's text or Redis; so the request shows neither headers nor body when it is printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from workers.config import UpstreamConfig

NOT_OURS = frozenset({"background", "stream", "stream_options"})
"""Members that say how *our* client wants its answer; upstream we always stream and never leave."""


class RequestError(Exception):
    """The request of a turn cannot be built: the configuration or the record does not allow it."""


@dataclass(frozen=True, kw_only=True)
class UpstreamRequest:
    """One POST, ready to be sent as often as the retry rules allow."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def build(upstream: UpstreamConfig, request: str | bytes, environ: Mapping[str, str]) -> UpstreamRequest:
    """Build the request; members that we do not know pass through byte for byte."""
    try:
        members = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise RequestError(f"the turn's request is no JSON object: {error}") from None
    body = {name: value for name, value in members.items() if name not in NOT_OURS}
    body["stream"] = msgspec.Raw(b"true")
    headers = {
        **upstream.headers,
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",  # a compressed stream is held back by its compressor
        "Content-Type": "application/json",
        "User-Agent": "foldline",
    }
    if upstream.api_key_env:
        key = environ.get(upstream.api_key_env, "")
        if not key:
            raise RequestError(f"the variable {upstream.api_key_env} holds no key")
        headers["Authorization"] = f"Bearer {key}"
    return UpstreamRequest(
        url=upstream.base_url.rstrip("/") + upstream.path, headers=headers, body=msgspec.json.encode(body)
    )
