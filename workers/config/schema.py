"""What can be configured: frozen structs, one per section, every default with its reason beside it.

Times are whole milliseconds and say so in their names; sizes are bytes. Nothing here reads a file or the environment.
"""

from typing import Literal

import msgspec

from workers.config.streaming import StreamingConfig

KIB = 1024
MIB = 1024 * KIB
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings: immutable, by name only, unknown keys refused."""


class RedisConfig(Section, frozen=True, kw_only=True):
    """The server that everything durable is on."""

    url: str = "redis://127.0.0.1:6379/0"
    """`rediss://…` for TLS; `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0` (or `rediss+sentinel`) asks sentinels for the master."""
    ca_file: str = ""
    """Whose signature a server's certificate must bear; empty: the system's own list."""
    cert_file: str = ""
    """Our own certificate, where the server asks for one, and its key."""
    key_file: str = ""
    sentinel_auth: bool = False
    """The sentinels ask for the address's user and password, as the server does."""
    prefix: str = "fl"
    partitions: int = 16
    """Set once for a deployment: the partition of a session follows from it."""
    cluster: bool = False
    connect_timeout_ms: int = 2 * SECOND
    socket_timeout_ms: int = 3 * SECOND
    """Longest wait for a reply that does not block; longer means the connection is lost."""
    block_ms: int = 900
    """Longest blocking read: below one second, so that a lost wake-up costs at most that."""
    durable: Literal["none", "waitaof", "wait"] = "none"
    """What an intent waits for before its socket is opened, where the server does not write through by itself."""


class IngestConfig(Section, frozen=True, kw_only=True):
    """Processes that read upstreams and publish their events."""

    lease_ms: int = 5 * SECOND
    renew_ms: int = 1_500
    max_turns: int = 256
    """Turns that one process carries at once; as many again may stand still, since their partition is behind."""
    max_agents: int = 8
    """Agents that one process runs at once; further turns wait for a free place."""
    take_count: int = 16
    buffer_bytes: int = 4 * MIB
    """Bytes read but not yet published, over all turns of a process."""
    turn_buffer_bytes: int = 512 * KIB
    """The same, for one turn."""
    lag_high: int = 20_000
    """Unfolded events of a partition at which its upstream sockets are not read any more, and no turn of it is taken."""
    lag_low: int = 10_000
    batch_max_events: int = 512
    batch_max_bytes: int = 256 * KIB
    producer_keep_ms: int = 5 * SECOND
    """How long acknowledged events are kept, in case the server loses its tail."""
    retry_base_ms: int = 250
    retry_max_ms: int = 10 * SECOND


class FoldConfig(Section, frozen=True, kw_only=True):
    """Processes that fold the log into frames and blocks."""

    lease_ms: int = 5 * SECOND
    renew_ms: int = 1_500
    take_count: int = 256
    """Log entries of one take."""
    commit_max_bytes: int = 1 * MIB
    commit_max_writes: int = 4_000
    """Frame and block records of one commit: a script holds the server while it runs (10,000 took 23 ms)."""
    trim_every_ms: int = 10 * SECOND
    deadline_every_ms: int = 500


class DeliveryConfig(Section, frozen=True, kw_only=True):
    """Processes that send blocks to channels."""

    lease_ms: int = 15 * SECOND
    renew_ms: int = 3 * SECOND
    send_deadline_ms: int = 8 * SECOND
    """From connect to reply of one attempt."""
    margin_ms: int = 2 * SECOND
    take_count: int = 64
    max_attempts: int = 1_000
    """What bounds a delivery's record; by the default backoff the age limit is reached first."""
    age_limit_ms: int = 24 * HOUR
    """A delivery that is neither sent nor unknown by then is dead."""
    unknown_hold_ms: int = 5 * MINUTE
    """How long an unknown delivery holds back its lane; where its channel can be asked, whoever takes over later asks for a quarantine first."""
    unknown_max_ms: int = 7 * DAY
    """How long it is kept for a person to resolve, before it counts as abandoned."""
    backoff_base_ms: int = 500
    backoff_max_ms: int = 5 * MINUTE

    @property
    def quarantine_ms(self) -> int:
        """How long after an attempt's start its request may still be on its way."""
        return self.send_deadline_ms + self.lease_ms + self.margin_ms


class GatewayConfig(Section, frozen=True, kw_only=True):
    """The HTTP door."""

    host: str = "127.0.0.1"
    port: int = 8137
    cors: list[str] = []
    max_body_bytes: int = 4 * MIB
    client_queue_bytes: int = 256 * KIB
    """Frames queued for one client; beyond it the client is served from the stream, and costs what one read brings: a commit at most."""
    keepalive_ms: int = 15 * SECOND
    poll_ms: int = 1 * SECOND
    tenant_limit: int = 256
    """Unfinished turns of one tenant."""
    partition_limit: int = 1_024
    """Unfinished turns of one partition."""
    default_upstream: str = ""
    require_keys: bool = False
    """Ask for an API key although the gateway listens on loopback."""


class RetentionConfig(Section, frozen=True, kw_only=True):
    """How long what is finished can still be read."""

    turn_ms: int = 24 * HOUR
    """A turn's record, frames and blocks, from its end and its last delivery's; a report that could not be kept, from when it was put aside."""
    log_ms: int = 1 * HOUR
    """Log entries that are folded and of no turn in flight, from when they were written."""
    idempotency_ms: int = 24 * HOUR
    part_ms: int = 24 * HOUR
    """A settled delivery's record."""


class LimitsConfig(Section, frozen=True, kw_only=True):
    """What ends a turn by name; frozen into each turn when it is submitted."""

    turn_max_ms: int = 1 * HOUR
    """From submit, whatever the turn waited for: it bounds the log."""
    silence_ms: int = 5 * MINUTE
    """No event at all for so long, times in which the turn had to wait for us aside."""
    queue_max_ms: int = 10 * MINUTE
    """Submitted and never taken."""
    tool_ms: int = 10 * MINUTE
    """A gateway tool that never answers, counted like silence."""
    cancel_grace_ms: int = 10 * SECOND
    """After a cancel, how long the ingest process has to end the turn by itself."""
    turn_max_bytes: int = 64 * MIB


class ServiceConfig(Section, frozen=True, kw_only=True):
    """The operations port of every process: /healthz, /readyz, /metrics."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: no port; 0: any free one, written to the log."""
    drain_ms: int = 10 * SECOND
    """Longest graceful stop."""
    stall_ms: int = 30 * SECOND
    """A process whose loop has not turned for so long ends itself, so that others take over."""


class ModesConfig(Section, frozen=True, kw_only=True):
    """Per runtime, whether its turns are delivered, or only recorded to be compared with what another path sends."""

    main: Literal["live", "shadow"] = "live"
    subagent: Literal["live", "shadow"] = "live"
    acp: Literal["live", "shadow"] = "live"


class LogConfig(Section, frozen=True, kw_only=True):
    """The JSON log."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class UpstreamConfig(Section, frozen=True, kw_only=True):
    """One model API or agent, known to clients by its name alone."""

    base_url: str = ""
    """Of a model API; an agent has a ``command`` instead."""
    wire: str = "responses"
    path: str = ""
    """Behind ``base_url``; empty: the wire's own, such as ``/chat/completions``."""
    api_key_env: str = ""
    """The variable that holds the key; the key itself stands nowhere."""
    models: list[str] = []
    """Model names that the gateway routes here."""
    headers: dict[str, str] = {}
    ca_file: str = ""
    """Certificates in PEM that the upstream's own must go back to, and no others; empty: the system's."""
    proxy: str = ""
    """The proxy that it is reached through, ``http://HOST:PORT``; the environment's variables for proxies are not read."""
    proxy_auth_env: str = ""
    """The variable that holds ``USER:PASSWORD`` for the proxy."""
    connect_timeout_ms: int = 10 * SECOND
    read_timeout_ms: int = 2 * MINUTE
    """No byte for so long. A comment that only keeps the connection is a sign of life here; a turn without any event for
    ``limits.silence_ms`` ends all the same."""
    connect_retries: int = 3
    """Also how often in a row a response is read again in vain, where it is kept (`resumable`)."""
    resumable: bool = False
    """It keeps its responses: one whose reader died, or whose connection was lost, is read again and goes on."""
    side_effects: bool = True
    """False: a request may be made a second time after its first carrier died unanswered."""
    runtime: Literal["main", "subagent", "acp"] = "main"
    external: bool = False
    """Its turns are carried by a program outside, which publishes their events itself; no ingest process takes them."""
    gateway_tools: list[str] = []
    """Functions that stand for a tool, each ``NAME`` or ``NAME=SHAPE``: ``custom`` for one with free text as its input; ``mcp``
    (``mcp:LABEL``), ``web_search``, ``web_fetch``, ``file_search`` or ``code_interpreter`` for one that the gateway answers, not the
    client. A bare name that is no shape is answered by the gateway and shown as ``mcp``."""
    command: list[str] = []
    """The program of an agent and its arguments (``wire = "acp"``), run by the ingest process for each turn."""
    cwd: str = ""
    """The folder that an agent works in."""
    env_allow: list[str] = msgspec.field(default_factory=lambda: ["PATH", "HOME", "LANG"])
    """The variables that an agent sees of ours; no other."""
    permission: Literal["allow", "reject", "cancel"] = "reject"
    """What an agent is answered that asks before it acts."""
    cancel_wait_ms: int = 5 * SECOND
    """How long an agent that was told to stop may take to say that it has, before it is killed."""

    @property
    def runtime_name(self) -> Literal["main", "subagent", "acp"]:
        """What a turn of this upstream runs on: an agent is one, whatever was configured."""
        return "acp" if self.wire == "acp" else self.runtime


class TargetConfig(Section, frozen=True, kw_only=True):
    """One place that blocks are sent to."""

    channel: Literal["console", "webhook", "discord", "slack", "telegram", "matrix"]
    url: str = ""
    """The webhook's."""
    secret_env: str = ""
    """The variable that holds the webhook's signing secret."""
    base_url: str = ""
    """Of a chat channel's HTTP interface; empty: the channel's own (Matrix has none for everybody)."""
    token_env: str = ""
    """The variable that holds a chat channel's bot token."""
    recipient: str = ""
    """Where in a chat channel messages go: ``CHAT``, ``CHAT/THREAD`` or ``CHAT/THREAD/REPLY``, slashes inside a piece as ``%2F``."""
    open_recipient: bool = False
    """Whoever submits a turn may name another recipient, as ``target:recipient``."""
    limit: int | None = None
    """Of one message, in the channel's unit; none: the channel's own."""
    max_lines: int | None = None
    """Lines of one message; none: the channel's own."""
    typing: bool = True
    """Show that something is being written while a turn runs, where the channel can."""
    path: str = "-"
    """The console's file; ``-`` is standard output."""
    record: str = ""
    """A file that gets each message in place of the channel: everything is done as for a send, and nothing leaves."""
    headers: dict[str, str] = {}
    policy: Literal["hold", "resend", "drop"] = "hold"
    """What happens to a delivery whose outcome is unknown: wait for a person, send again knowingly, or give up."""
    key_window_ms: int = 24 * HOUR
    """How long the receiver remembers an idempotency key; under a minute counts as not at all."""
    reconcile_url: str = ""
    """Where a webhook's receiver is asked whether it took a message: `{id}` stands for the message's id; 200 is yes, 404 is no."""
    account: str = ""
    """Targets of one account share its rate budget; empty: the target's own name."""
    rate_per_s: float | None = None
    """Sends per second of the account; none: as the channel documents; 0: unlimited."""
    burst: int = 10
    """Sends at once, where ``rate_per_s`` is given."""
    chat_rate_per_s: float | None = None
    """Sends per second to one chat; none: as the channel documents; 0: unlimited."""


class Config(Section, frozen=True, kw_only=True):
    """Everything that a process can be told."""

    redis: RedisConfig = RedisConfig()
    ingest: IngestConfig = IngestConfig()
    fold: FoldConfig = FoldConfig()
    delivery: DeliveryConfig = DeliveryConfig()
    gateway: GatewayConfig = GatewayConfig()
    retention: RetentionConfig = RetentionConfig()
    limits: LimitsConfig = LimitsConfig()
    service: ServiceConfig = ServiceConfig()
    modes: ModesConfig = ModesConfig()
    log: LogConfig = LogConfig()
    streaming: StreamingConfig = StreamingConfig()
    upstreams: dict[str, UpstreamConfig] = {}
    targets: dict[str, TargetConfig] = {}
