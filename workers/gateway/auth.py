"""Who asks: the tenant of a request, or a refusal.

While no API key exists, the gateway serves its own machine alone, and everybody there is the default tenant: it listens on loopback,
and a request must name a loopback host, so that no web page can reach it by a name that it points at 127.0.0.1. As soon as one key
exists, every request needs one. A gateway that once saw keys never opens again by their revocation.

A browser's EventSource cannot send a header; for reading, and only for reading, the key may come as a cookie. A request that changes
something and comes from a web page must come from a page of this gateway or of an allowed origin.
"""

from urllib.parse import unquote, urlsplit

from starlette.requests import Request

from ledger import access
from workers.config import GatewayConfig
from workers.gateway import inputs
from workers.gateway.errors import HttpError
from workers.gateway.store import Store

COOKIE = "foldline_key"
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class Auth:
    """Answers for each request whose it is."""

    def __init__(self, store: Store, config: GatewayConfig) -> None:
        self._store = store
        self._origins = frozenset(config.cors)
        self._closed = config.require_keys

    async def keys_exist(self) -> bool:
        """Whether requests need a key; asked at start to choose where to listen."""
        if not self._closed and await self._store.run(access.count_keys(self._store.keys)) > 0:
            self._closed = True
        return self._closed

    async def tenant(self, request: Request) -> str:
        """Return the tenant; raises 401 without a valid key where one is needed, 403 for a page of another origin."""
        inputs.check_headers(request)
        self._check_origin(request)
        secret = _secret(request)
        if secret is not None:
            found = await self._store.run(access.find_key(self._store.keys, access.hash_key(secret)))
            if found is not None:
                self._closed = True
                return found.tenant
        if await self.keys_exist():
            raise HttpError(
                401,
                "invalid_api_key" if secret else "missing_api_key",
                "the API key is not known here" if secret else "an API key is needed: Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if (host := _host(request)) not in LOOPBACK_HOSTS:
            raise HttpError(403, "host_refused", f"without API keys only loopback is served, not {host[:80]!r}")
        return access.DEFAULT_TENANT

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        if origin is None or request.method in {"GET", "HEAD"} or origin in self._origins or "*" in self._origins:
            return
        if origin.partition("://")[2] != request.headers.get("host"):
            raise HttpError(403, "origin_refused", f"pages of {origin[:80]!r} may not start or change turns here")


def _host(request: Request) -> str:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _secret(request: Request) -> str | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    secret = value.strip() if scheme.lower() == "bearer" else ""
    if not secret and request.method == "GET":
        secret = unquote(request.cookies.get(COOKIE, ""))
    return secret or None
