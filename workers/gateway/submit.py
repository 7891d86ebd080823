"""From a request to a submitted turn: what is decided once, and frozen in the turn.

Order: choose the upstream, resolve the previous turn, choose the session, bind the idempotency key, write the turn. Each step may
be repeated: killed between any two, the client's retry with the same key finds the same turn and completes it. Without a key a retry
is another turn.

Names of upstreams and targets come from the configuration; a client never says a URL. Everything that configuration decides for a
turn stands in its first event, so that a change of configuration meets new turns alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from ledger import shadow, turns
from ledger.access import scoped, unscoped
from ledger.external import first_token
from ledger.keys import digest_of, make_turn_id
from ledger.records import SHADOW, TurnRecord
from ledger.turns import IdempotencyStatus, NewTurn, SubmitStatus, TurnLimits
from pipeline import codec
from pipeline.events import FOLD_VERSION, RuntimeName, Target, TurnStarted
from pipeline.limits import Limits
from pipeline.translate import parse_routes
from workers.config import Config, UpstreamConfig
from workers.config.channels import split_recipient
from workers.gateway import publishing
from workers.gateway.errors import HttpError
from workers.gateway.store import Store
from workers.gateway.streaming import stream_settings
from workers.observability import logs, metrics
from workers.runtime import entropy, failpoints
from workers.runtime.clock import Clock
from workers.upstream import VERBATIM, UnsupportedError, translate, with_stand_ins

RESPONSE_PREFIX = "resp_"
OURS = frozenset({"background", "foldline"})  # members of a request that are for the gateway and go no further
ECHOED = (
    "background", "conversation", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
    "parallel_tool_calls", "previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier",
    "store", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
)  # fmt: skip
"""Members of a request that the response object repeats."""
ECHOED_VERBATIM = ("metadata", "model")  # the others have another form on another wire
RETRY_AFTER_S = {"tenant": 2, "partition": 2}
PARENT_NOT_STARTED = HttpError(
    409,
    "parent_not_started",
    "the parent turn has no event yet; submit its child once it has",
    param="parent",
    headers={"Retry-After": "1"},
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a client asks for, in either dialect."""

    tenant: str
    request: dict[str, Any]
    upstream: str | None = None
    session: str | None = None
    serial: bool = False
    verbatim: bool = False
    targets: tuple[str, ...] | None = ()
    """None: those of the parent."""
    parent: str | None = None
    parent_call: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """The turn that answers a request, and whether this request made it."""

    turn: str
    session: str
    upstream: str
    mode: str
    is_new: bool


class Submitter:
    """Makes turns."""

    def __init__(self, store: Store, config: Config, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    async def submit(self, wanted: Wanted) -> Submitted:
        """Make the turn that a client asks for, or find the one that its idempotency key stands for already."""
        previous = await self._previous(wanted)
        parent = await self._parent(wanted)
        upstream = choose_upstream(self._config, wanted, previous)
        known = self._config.upstreams[upstream]
        request = upstream_request(wanted.request, upstream, known, previous)
        if known.external:
            pass  # whoever carries the turn knows what it asks for
        elif wanted.verbatim:
            request["foldline"] = {VERBATIM: True}
        else:
            check_expressible(request, known.wire)
        targets = self._targets(wanted, parent)
        random_hex = entropy.hex24()
        session = _session_of(wanted, previous, parent) or random_hex
        turn = make_turn_id(self._store.keys.partition_of(session), random_hex)
        turn, session = await self._bind(wanted, turn, session)
        started = self._started(
            wanted,
            turn=turn,
            session=session,
            upstream=upstream,
            model=request.get("model"),
            targets=targets,
        )
        mode = await self._mode(started.runtime)
        new = NewTurn(
            turn=turn,
            tenant=wanted.tenant,
            runtime=started.runtime,
            session=session,
            upstream=upstream,
            request=msgspec.json.encode(request).decode(),
            started=codec.encode(started).decode(),
            targets=msgspec.json.encode(targets).decode(),
            limits=self._limits(),
            serial=wanted.serial,
            external_token=first_token(entropy.nonce()) if known.external else "",
            parent=wanted.parent or "",
            parent_call=wanted.parent_call or "",
            shadow_ms=self._config.retention.turn_ms if mode == SHADOW else 0,
        )
        is_new = await self._write(new)
        if known.external:
            await publishing.begin(self._store, turn)
        if not is_new:  # what was decided when the turn was made holds, whatever was switched since
            record = await self._store.turn(turn, wanted.tenant)
            mode = record.mode if record is not None else mode
        return Submitted(turn=turn, session=session, upstream=upstream, mode=mode, is_new=is_new)

    async def _bind(self, wanted: Wanted, turn: str, session: str) -> tuple[str, str]:
        if wanted.idempotency_key is None:
            return turn, session
        failpoints.hit("gateway.before_idempotency")
        bound = await self._store.run(
            turns.claim_idempotency(
                self._store.keys,
                tenant=wanted.tenant,
                key=wanted.idempotency_key,
                turn=turn,
                session=session,
                body_hash=_body_hash(wanted),
                ttl_ms=self._config.retention.idempotency_ms,
            )
        )
        failpoints.hit("gateway.after_idempotency")
        if bound.status is IdempotencyStatus.CONFLICT:
            raise HttpError(
                409,
                "idempotency_key_reused",
                "this idempotency key was used with another request; a key belongs to one request alone",
                param="idempotency_key",
            )
        return bound.turn, bound.session

    async def _write(self, new: NewTurn) -> bool:
        limits = self._config.gateway
        call = turns.submit(
            self._store.keys, new, tenant_limit=limits.tenant_limit, partition_limit=limits.partition_limit
        )
        failpoints.hit("gateway.before_submit")
        status = await self._store.run(call)
        failpoints.hit("gateway.after_submit")
        match status:
            case SubmitStatus.TENANT_FULL:
                raise _refused("tenant", f"{limits.tenant_limit} of your turns are unfinished")
            case SubmitStatus.PARTITION_FULL:
                raise _refused("partition", f"{limits.partition_limit} turns of this partition are unfinished")
            case SubmitStatus.PARENT_UNKNOWN:
                raise parent_not_found(new.parent)
            case SubmitStatus.PARENT_NOT_STARTED:
                raise PARENT_NOT_STARTED
            case SubmitStatus.OK:
                metrics.TURNS_SUBMITTED.inc()
                logs.bind(turn=new.turn).info("turn_submitted", upstream=new.upstream, tenant=new.tenant)
        return status is SubmitStatus.OK

    async def _previous(self, wanted: Wanted) -> TurnRecord | None:
        ident = wanted.request.get("previous_response_id")
        if ident is None:
            return None
        param = "previous_response_id"
        record = None
        if isinstance(ident, str) and ident.startswith(RESPONSE_PREFIX):
            record = await self._store.turn(ident.removeprefix(RESPONSE_PREFIX), wanted.tenant)
        if record is None:
            shown = str(ident)[:100]
            raise HttpError(
                404, "previous_response_not_found", f"Previous response '{shown}' was not found", param=param
            )
        if not record.state.is_terminal:
            raise HttpError(
                409,
                "previous_response_not_finished",
                f"the previous response is {record.state}; wait for its end",
                param=param,
            )
        if not record.upstream_id:
            raise HttpError(
                400, "previous_response_unusable", "the previous turn failed before its upstream answered", param=param
            )
        return record

    async def _parent(self, wanted: Wanted) -> TurnRecord | None:
        if wanted.parent is None:
            return None
        record = await self._store.turn(wanted.parent, wanted.tenant)
        if record is None:
            raise parent_not_found(wanted.parent)
        if not record.tail:
            raise PARENT_NOT_STARTED
        return record

    async def _mode(self, runtime: str) -> str:
        """Whether a turn that is submitted now is delivered; what was set while running goes over the configuration."""
        said = await self._store.run(shadow.read_mode(self._store.keys, runtime))
        return said or str(getattr(self._config.modes, runtime))

    def _targets(self, wanted: Wanted, parent: TurnRecord | None) -> list[Target]:
        if wanted.targets is None:
            return msgspec.json.decode(parent.targets, type=list[Target]) if parent is not None else []
        return [self._target(named) for named in dict.fromkeys(wanted.targets)]

    def _target(self, named: str) -> Target:
        try:
            name, recipient = split_recipient(self._config.targets, named)
        except ValueError as error:
            raise HttpError(400, "target_unknown", str(error), param="targets") from None
        return Target(channel=self._config.targets[name].channel, name=name, recipient=recipient)

    def _limits(self) -> TurnLimits:
        limits = self._config.limits
        return TurnLimits(
            queue_ms=limits.queue_max_ms,
            turn_ms=limits.turn_max_ms,
            silence_ms=limits.silence_ms,
            tool_ms=limits.tool_ms,
            bytes=limits.turn_max_bytes,
        )

    def _started(
        self, wanted: Wanted, *, turn: str, session: str, upstream: str, model: Any, targets: list[Target]
    ) -> TurnStarted:
        known = self._config.upstreams[upstream]
        runtime: RuntimeName = "subagent" if wanted.parent is not None else known.runtime_name
        echoed = ECHOED_VERBATIM if wanted.verbatim else ECHOED
        response = {name: wanted.request[name] for name in echoed if wanted.request.get(name) is not None}
        if isinstance(model, str):
            response["model"] = model
        return TurnStarted(
            seq=0,
            at=self._clock.now_ms(),
            fold=FOLD_VERSION,
            runtime=runtime,
            wire="canonical" if known.external else known.wire,
            turn=turn,
            session=session,
            parent=wanted.parent,
            parent_call=wanted.parent_call or UNSET,
            upstream=upstream,
            model=model if isinstance(model, str) else None,
            settings=stream_settings(self._config, wanted.settings, runtime, targets),
            targets=targets,
            tools=parse_routes(known.gateway_tools),
            limits=Limits().frozen(),
            response=response,
        )


def choose_upstream(config: Config, wanted: Wanted, previous: TurnRecord | None) -> str:
    """Return the name of the upstream: said, or the previous turn's, or of the model's prefix or list, or the default one."""
    model = wanted.request.get("model")
    if model is not None and (not isinstance(model, str) or not 0 < len(model) <= 256):
        raise HttpError(400, "invalid_value", "model must be a name of at most 256 characters", param="model")
    said = wanted.upstream
    if said is not None and said not in config.upstreams:
        raise HttpError(400, "upstream_unknown", f"no upstream is named {said[:80]!r} here", param="upstream")
    if previous is not None:
        if said not in (None, previous.upstream) or previous.upstream not in config.upstreams:
            raise HttpError(
                400,
                "previous_response_elsewhere",
                f"the previous response is of the upstream {previous.upstream!r}",
                param="upstream",
            )
        return previous.upstream
    if said is not None:
        return said
    if model is not None:
        prefix, slash, _ = model.partition("/")
        if slash and prefix in config.upstreams:
            return prefix
        for name, upstream in config.upstreams.items():
            if model in upstream.models:
                return name
    default = config.gateway.default_upstream
    if not default and len(config.upstreams) == 1:
        (default,) = config.upstreams
    if default not in config.upstreams:
        raise HttpError(
            400, "upstream_needed", "no upstream serves this model; name one with X-Foldline-Upstream", param="model"
        )
    return default


def upstream_request(
    request: dict[str, Any], name: str, upstream: UpstreamConfig, previous: TurnRecord | None
) -> dict[str, Any]:
    """Return the request as the upstream gets it: always a stream, its own ids, without what is for the gateway alone."""
    body = {key: value for key, value in request.items() if key not in OURS}
    body["stream"] = True
    model = body.get("model")
    if isinstance(model, str):
        body["model"] = model.removeprefix(f"{name}/")
    elif upstream.models:
        body["model"] = upstream.models[0]
    if previous is not None:
        body["previous_response_id"] = previous.upstream_id
    else:
        body.pop("previous_response_id", None)
    return with_stand_ins(body, parse_routes(upstream.gateway_tools))


def check_expressible(request: dict[str, Any], wire: str) -> None:
    """Refuse at the door what the upstream's wire has no form for."""
    try:
        translate(wire, request)
    except UnsupportedError as refused:
        raise HttpError(400, "upstream_request_unsupported", str(refused), param=refused.param or None) from None


def parent_not_found(parent: str) -> HttpError:
    """Return the answer for a parent that does not exist, or is another tenant's."""
    return HttpError(404, "parent_not_found", f"Parent turn '{parent[:100]}' was not found", param="parent")


def _session_of(wanted: Wanted, previous: TurnRecord | None, parent: TurnRecord | None) -> str | None:
    """Return the session: the parent's, said, the previous turn's, or of the idempotency key; None: the turn is its own session."""
    if parent is not None:
        if wanted.session not in (None, unscoped(parent.tenant, parent.session)):
            raise HttpError(400, "session_elsewhere", "a child belongs to its parent's session", param="session")
        return parent.session
    if wanted.session is not None:
        return scoped(wanted.tenant, wanted.session)
    if previous is not None:
        return previous.session
    if wanted.idempotency_key is not None:
        return digest_of(wanted.tenant, wanted.idempotency_key)[:24]
    return None


def _body_hash(wanted: Wanted) -> str:
    parts = [wanted.request, wanted.upstream, wanted.session, wanted.serial, wanted.targets, dict(wanted.settings)]
    if wanted.parent is not None:
        parts += [wanted.parent, wanted.parent_call]
    if wanted.verbatim:
        parts.append(VERBATIM)
    return digest_of(msgspec.json.encode(parts, order="sorted").decode())


def _refused(bound: str, message: str) -> HttpError:
    metrics.ADMISSION_REFUSED.labels(bound=bound).inc()
    retry = RETRY_AFTER_S[bound]
    return HttpError(429, f"{bound}_full", f"{message}; nothing was accepted", headers={"Retry-After": str(retry)})
