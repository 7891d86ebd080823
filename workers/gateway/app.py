"""The gateway process: HTTP in front of the ledger.

It holds nothing that another gateway does not find again: turns, frames and keys are on the server, a client's place is in the
client's own hands. So it may die at any moment, and any number of it may run. Stopping, it takes no new connections, ends its
streams (clients go on elsewhere by the last id they have), answers those who wait with 503, and leaves.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ledger import access
from ledger.commands import Scripts
from ledger.errors import Full, LedgerError, Unavailable
from ledger.keys import Keyspace
from workers.config import Config
from workers.gateway import errors
from workers.gateway.auth import LOOPBACK_HOSTS, Auth
from workers.gateway.errors import HttpError
from workers.gateway.page import serve_page
from workers.gateway.producers import Producers
from workers.gateway.protocol import BoundedProtocol
from workers.gateway.reports import Reports
from workers.gateway.responses import Responses
from workers.gateway.shadows import Shadows
from workers.gateway.store import Store
from workers.gateway.submit import Submitter
from workers.gateway.subscriptions import Subscriptions
from workers.gateway.turns import Turns
from workers.observability import logs, metrics
from workers.observability.health import HealthServer
from workers.observability.listening import CannotListenError
from workers.runtime import entropy
from workers.runtime.clock import SystemClock
from workers.runtime.service import Service, Services
from workers.streams.attendance import Attendance
from workers.streams.connection import connect
from workers.streams.patience import patiently
from workers.streams.startup import check_server

Handler = Callable[[Request], Awaitable[Response]]

CORS_HEADERS = [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "X-Foldline-Session",
    "X-Foldline-Upstream",
]
BACKLOG = 2048
KEEP_ALIVE_S = 75
"""For an idle connection; longer than clients (SDKs: 5 s) and balancers (60 s) keep theirs, so that none sends into one that closes."""
LINGER_S = 2  # after the streams have been ended, how long a connection may take to send what is left


async def run(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let clients go and return."""
    gateway = Gateway(config)
    services: list[Service] = [gateway]
    if config.service.port is not None:
        services.append(HealthServer(config.service.host, config.service.port, gateway.is_ready))
    async with Services(*services):
        logs.bind().info("listening", host=gateway.host, port=gateway.port)
        await gateway.serve_until(stop)


class Gateway:
    """One HTTP server with everything behind it; a service."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._client = connect(config.redis, name="gateway")
        self._listener = connect(config.redis, name="hints")
        keys = Keyspace(config.redis.prefix, config.redis.partitions)
        self.store = Store(self._client, keys)
        self.sharded = config.redis.cluster
        self.hub = Subscriptions(self._listener, keys, self.store, config.gateway, sharded=self.sharded)
        self.auth = Auth(self.store, config.gateway)
        worker = entropy.worker_name("gateway")
        self._attendance = Attendance(Scripts(self._client), keys, role="gateway", worker=worker)
        self._reports = Reports(self.store, config, consumer=worker)
        self.host = config.gateway.host
        self.port = config.gateway.port
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check the server, choose where to listen, and listen; waits for the server of turns as long as it takes."""
        await check_server(self._client, self._config.redis, role="gateway")
        keys_exist = await patiently(self.auth.keys_exist, what="count_keys", role="gateway")
        if not keys_exist and self.host not in LOOPBACK_HOSTS:
            logs.bind().warning("loopback_only", wanted=self.host, why="no API keys exist")
            self.host = "127.0.0.1"
        await self.hub.start()
        await self._attendance.start()
        await self._reports.start()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise CannotListenError("gateway", self.host, self.port, error) from None
        self.port = int(listening.getsockname()[1])
        self._server = Server(_server_config(build_app(self, self._config)))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raises when the server ended by itself."""
        stopping = asyncio.ensure_future(stop.wait())
        if self._serving is None:
            raise RuntimeError("start the gateway before serving")
        try:
            await asyncio.wait({stopping, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        """End the streams, then the server, then the connections."""
        self.hub.end_all()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        await self.hub.stop()
        await self._reports.stop()
        await self._attendance.stop()
        await self._client.aclose()
        await self._listener.aclose()

    def is_ready(self) -> bool:
        """Whether turns can be read and are told of."""
        return self.hub.confirmed.is_set()


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals alone."""
        yield


def _server_config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LINGER_S,
    )


def build_app(gateway: Gateway, config: Config) -> Starlette:
    """Return the application: every route, its answers to errors, and the origins that may call it."""
    submitter = Submitter(gateway.store, config, SystemClock())
    responses = Responses(gateway.store, gateway.auth, submitter, gateway.hub, config)
    turns = Turns(gateway.store, gateway.auth, submitter, gateway.hub, config)

    producers = Producers(gateway.store, gateway.auth, config)
    shadows = Shadows(gateway.store, gateway.auth, config)

    async def ready(_request: Request) -> Response:
        if not gateway.is_ready():
            return PlainTextResponse("not ready\n", status_code=503)
        await gateway.store.once(access.check_meta(gateway.store.keys))
        return PlainTextResponse("ready\n")

    async def told(request: Request) -> Response:
        await gateway.auth.tenant(request)  # it names upstreams and targets, and this port may be public
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    routes = [
        _route("/", serve_page, "GET"),
        _route("/v1/responses", responses.create, "POST"),
        _route("/v1/responses/{id}", responses.retrieve, "GET"),
        _route("/v1/responses/{id}/cancel", responses.cancel, "POST"),
        _route("/v1/turns", turns.create, "POST"),
        _route("/v1/turns/{id}", turns.retrieve, "GET"),
        _route("/v1/turns/{id}/events", turns.events, "GET"),
        _route("/v1/turns/{id}/cancel", turns.cancel, "POST"),
        _route("/v1/turns/{id}/events", producers.publish, "POST"),
        _route("/v1/turns/{id}/claim", producers.claim, "POST"),
        _route("/v1/shadow/{id}", shadows.report, "POST"),
        _route("/v1/shadow/{id}", shadows.compare, "GET"),
        _route("/healthz", _healthy, "GET"),
        _route("/readyz", ready, "GET"),
        _route("/metrics", told, "GET"),
    ]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=config.gateway.cors,
        allow_methods=["GET", "POST"],
        allow_headers=CORS_HEADERS,
        expose_headers=["X-Foldline-Turn", "X-Foldline-Mode"],
    )
    return Starlette(
        routes=routes,
        middleware=[cors] if config.gateway.cors else [],
        exception_handlers={HTTPException: _no_such_route},
    )


def _route(path: str, handler: Handler, method: str) -> Route:
    """Return a route whose every outcome is an answer in our form, counted."""

    async def answer(request: Request) -> Response:
        try:
            response = await handler(request)
        except HttpError as error:
            response = error.response()
        except Unavailable:
            response = errors.unavailable().response()
        except Full:
            metrics.ADMISSION_REFUSED.labels(bound="memory").inc()
            response = errors.full().response()
        except LedgerError as error:
            logs.bind(route=path).error("ledger_error", error=str(error))
            response = HttpError(500, "ledger_error", "the turn store answered something unexpected").response()
        except Exception:  # noqa: BLE001 - the last line of defence of one request; everything else goes on
            logs.bind(route=path).exception("request_failed")
            response = HttpError(500, "internal_error", "the gateway failed; its log says why").response()
        metrics.HTTP_REQUESTS.labels(route=path, status=str(response.status_code)).inc()
        return response

    return Route(path, answer, methods=[method])


async def _no_such_route(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, text = (
        ("method_not_allowed", "this path is not served with this method")
        if status == 405
        else ("not_found", "no such path")
    )
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    metrics.HTTP_REQUESTS.labels(route="other", status=str(status)).inc()
    return HttpError(status, code, text, headers=headers).response()


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok\n")
