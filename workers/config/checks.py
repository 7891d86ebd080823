"""The inequalities between settings that the protocols rest on, and the ranges of single values."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from pipeline.project.registry import CHANNELS
from pipeline.translate import parse_routes
from workers.config.addresses import SENTINEL_SCHEMES, is_tls, problem_of, scheme_of
from workers.config.channels import MEDIA, base_url_of, is_recipient, key_window_of
from workers.config.credentials import SECRET_FIELDS, is_variable
from workers.config.schema import Config, RedisConfig, TargetConfig, UpstreamConfig

WIRES = ("responses", "chat", "messages", "gemini", "acp")
"""Those of the dialects, which are not loaded here: every process reads its configuration, and few put requests."""
LONGEST_POLL_MS = 1_000
"""A lost wake-up costs at most this."""


def check(config: Config) -> list[str]:
    """Every rule that the configuration breaks, in words; empty when it can be used."""
    return [*_ranges(config), *_leases(config), *_delivery(config), *_names(config), *_variables(config)]


def _ranges(config: Config) -> Iterator[str]:
    if not 1 <= config.redis.partitions <= 4096:
        yield f"redis.partitions: 1 to 4096 is expected, found {config.redis.partitions}"
    if not config.redis.prefix or any(char in config.redis.prefix for char in "{}: \n"):
        yield f"redis.prefix: letters without braces, colons or spaces are expected, found {config.redis.prefix!r}"
    yield from _address(config.redis)
    for section in ("redis", "ingest", "fold", "delivery", "gateway", "retention", "limits", "service"):
        body = getattr(config, section)
        for field in body.__struct_fields__:
            value = getattr(body, field)
            positive = field.endswith(("_ms", "_bytes", "_count", "_events", "_writes", "_turns", "_agents", "_limit"))
            if positive and isinstance(value, int) and value <= 0:
                yield f"{section}.{field}: a number above 0 is expected, found {value}"
    if config.retention.part_ms > config.retention.turn_ms:
        yield (
            f"retention.part_ms ({config.retention.part_ms}) must be at most retention.turn_ms ({config.retention.turn_ms}): "
            "the turn says whose a delivery is"
        )
    if config.ingest.lag_low >= config.ingest.lag_high:
        yield "ingest.lag_low must be below ingest.lag_high"
    if config.limits.silence_ms < config.ingest.lease_ms:
        yield (
            f"limits.silence_ms ({config.limits.silence_ms}) must be at least ingest.lease_ms ({config.ingest.lease_ms}): "
            "that a turn waits is told by the renewals of its claim"
        )
    if not 0 <= config.gateway.port <= 65535:
        yield f"gateway.port: 0 to 65535 is expected, found {config.gateway.port}"


def _address(redis: RedisConfig) -> Iterator[str]:
    if problem := problem_of(redis.url):
        yield f"redis.url: {problem}"
    elif redis.cluster and scheme_of(redis.url) in SENTINEL_SCHEMES:
        yield "redis.cluster: a cluster has no sentinels; name one of its nodes in redis.url"
    for name in ("ca_file", "cert_file", "key_file"):
        if getattr(redis, name) and not is_tls(redis.url):
            yield f"redis.{name}: redis.url must begin with rediss for TLS"
    if bool(redis.cert_file) != bool(redis.key_file):
        yield "redis.cert_file and redis.key_file belong together"


def _leases(config: Config) -> Iterator[str]:
    for role in ("ingest", "fold", "delivery"):
        body = getattr(config, role)
        if body.renew_ms * 3 > body.lease_ms:
            yield f"{role}.renew_ms ({body.renew_ms}) must be at most a third of {role}.lease_ms ({body.lease_ms})"
        if config.redis.block_ms >= body.lease_ms:
            yield f"redis.block_ms ({config.redis.block_ms}) must be below {role}.lease_ms ({body.lease_ms})"
    if config.redis.block_ms > LONGEST_POLL_MS:
        yield f"redis.block_ms ({config.redis.block_ms}) must be at most {LONGEST_POLL_MS}"
    if config.gateway.poll_ms > LONGEST_POLL_MS:
        yield f"gateway.poll_ms ({config.gateway.poll_ms}) must be at most {LONGEST_POLL_MS}"


def _delivery(config: Config) -> Iterator[str]:
    body = config.delivery
    if body.send_deadline_ms + body.margin_ms > body.lease_ms - body.renew_ms:
        yield (
            f"delivery.send_deadline_ms + margin_ms ({body.send_deadline_ms + body.margin_ms}) must be at most "
            f"delivery.lease_ms - renew_ms ({body.lease_ms - body.renew_ms})"
        )
    for name, target in config.targets.items():
        window = key_window_of(target)
        if window and window <= body.quarantine_ms:
            yield (
                f"targets.{name}.key_window_ms ({window}) must be above delivery.send_deadline_ms + lease_ms + margin_ms "
                f"({body.quarantine_ms})"
            )


def _names(config: Config) -> Iterator[str]:
    default = config.gateway.default_upstream
    if default and default not in config.upstreams:
        yield f"gateway.default_upstream: no upstream is named {default!r}"
    for name, upstream in config.upstreams.items():
        if upstream.external:
            pass  # nobody here opens it, whatever it runs on
        elif upstream.wire not in WIRES:
            yield f"upstreams.{name}.wire: one of {', '.join(WIRES)} is expected, found {upstream.wire!r}"
        elif upstream.wire == "acp":
            yield from _agent(name, upstream)
        elif not upstream.base_url.startswith(("http://", "https://")):
            yield f"upstreams.{name}.base_url: an http or https URL is expected"
        else:
            yield from _model_api(name, upstream)
        try:
            parse_routes(upstream.gateway_tools)
        except ValueError as wrong:
            yield f"upstreams.{name}.gateway_tools: {wrong}"
        if upstream.resumable and upstream.wire != "responses":
            yield f"upstreams.{name}.resumable: the wire {upstream.wire} keeps no responses that could be read again"
    for name, target in config.targets.items():
        most = CHANNELS[target.channel].limit
        if target.limit is not None and (most is None or not 0 < target.limit <= most):
            yield f"targets.{name}.limit: {f'1 to {most}' if most else 'no limit'} is expected, found {target.limit}"
        if target.max_lines is not None and (most is None or target.max_lines < 1):
            yield f"targets.{name}.max_lines: {'a number above 0' if most else 'no limit'} is expected, found {target.max_lines}"
        if target.channel == "webhook" and not target.record and not target.url.startswith(("http://", "https://")):
            yield f"targets.{name}.url: an http or https URL is expected"
        asked = target.reconcile_url
        if asked and not (asked.startswith(("http://", "https://")) and "{id}" in asked):
            yield f"targets.{name}.reconcile_url: an http or https URL with {{id}} in it is expected"
        if MEDIA[target.channel].is_chat:
            yield from _chat(name, target)


def _variables(config: Config) -> Iterator[str]:
    """A secret that stands where the name of its variable belongs would be printed as a name is; it is not repeated here."""
    for section, field in SECRET_FIELDS:
        for name, one in getattr(config, section).items():
            variable = getattr(one, field)
            if variable and not is_variable(variable):
                yield f"{section}.{name}.{field}: the name of the variable that holds the secret is expected"


def _chat(name: str, target: TargetConfig) -> Iterator[str]:
    if not target.record and not base_url_of(target).startswith(("http://", "https://")):
        yield f"targets.{name}.base_url: an http or https URL is expected"
    if not target.record and not target.token_env:
        yield f"targets.{name}.token_env: the name of the variable that holds the bot's token is expected"
    if not target.recipient and not target.open_recipient:
        yield f"targets.{name}.recipient: CHAT, CHAT/THREAD or CHAT/THREAD/REPLY is expected, or open_recipient = true"
    elif target.recipient and not is_recipient(target.recipient):
        yield f"targets.{name}.recipient: CHAT, CHAT/THREAD or CHAT/THREAD/REPLY is expected, found {target.recipient!r}"


def _model_api(name: str, upstream: UpstreamConfig) -> Iterator[str]:
    if upstream.runtime == "acp":
        yield f"upstreams.{name}.runtime: acp belongs to the wire acp"
    if _has_secret(upstream.base_url):
        yield f"upstreams.{name}.base_url: a URL without user and password is expected; name a variable in api_key_env"
    if upstream.ca_file and not upstream.ca_file.startswith("/"):
        yield f"upstreams.{name}.ca_file: the full path of a file is expected"
    if upstream.ca_file and not upstream.base_url.startswith("https://"):
        yield f"upstreams.{name}.ca_file: it belongs to an https URL"
    if upstream.proxy and not _is_proxy(upstream.proxy):
        # the value is not repeated: it may hold a password
        yield f"upstreams.{name}.proxy: http://HOST:PORT is expected, its user and password in the variable of proxy_auth_env"
    if upstream.proxy_auth_env and not upstream.proxy:
        yield f"upstreams.{name}.proxy_auth_env: there is no proxy"


def _has_secret(url: str) -> bool:
    return "@" in urlsplit(url).netloc


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    rest = parts.path.strip("/") + parts.query + parts.fragment
    return parts.scheme == "http" and bool(parts.hostname) and port is not None and not rest and "@" not in parts.netloc


def _agent(name: str, upstream: UpstreamConfig) -> Iterator[str]:
    if not upstream.command or not all(upstream.command[:1]):
        yield f"upstreams.{name}.command: a program and its arguments are expected"
    if not upstream.cwd.startswith("/"):
        yield f"upstreams.{name}.cwd: the full path of the folder that the agent works in is expected"
    if upstream.runtime == "subagent":
        yield f"upstreams.{name}.runtime: an upstream of the wire acp is an agent"
    for field in ("ca_file", "proxy", "proxy_auth_env"):
        if getattr(upstream, field):
            yield f"upstreams.{name}.{field}: an agent is reached by its command"
    if upstream.cancel_wait_ms < 0:
        yield f"upstreams.{name}.cancel_wait_ms: a number from 0 is expected, found {upstream.cancel_wait_ms}"
