"""Every instrument that foldline has, by name; a process shows those that its role moves.

Labels are bounded: roles, partitions, states, outcomes; never a turn, a tenant or a text.
"""

from prometheus_client import Counter, Gauge, Histogram

QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
SLOW = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)

# every role
OWNED = Gauge("foldline_partitions_owned", "Partitions that this process owns.", ["role"])
TAKEOVERS = Counter("foldline_takeovers_total", "Partitions or turns taken over from another holder.", ["role"])
LEASES_LOST = Counter("foldline_leases_lost_total", "Leases found stale by their holder.", ["role"])
RENEWALS = Counter("foldline_renewals_total", "Lease renewals by outcome.", ["role", "outcome"])
UNAVAILABLE = Counter("foldline_redis_unavailable_total", "Calls repeated because the server did not answer.", ["role"])
GUARD_CLOSED = Counter("foldline_guard_closed_total", "Times that take-overs were held back, by reason.", ["reason"])
SERVER_LOST_DATA = Counter(
    "foldline_server_lost_data_total", "Turns or positions that the server no longer knew.", ["role"]
)

# ingest
INGEST_TURNS = Gauge("foldline_ingest_turns", "Turns that this process is carrying.")
INGEST_EVENTS = Counter("foldline_ingest_events_total", "Canonical events published.")
INGEST_BYTES = Counter("foldline_ingest_bytes_total", "Bytes read from upstreams.")
INGEST_BATCH = Histogram("foldline_ingest_batch_events", "Events of one publish.", buckets=SIZES)
INGEST_PUBLISH = Histogram("foldline_ingest_publish_seconds", "Time of one publish.", buckets=QUICK)
INGEST_PAUSED = Gauge("foldline_ingest_paused_turns", "Turns whose upstream is not read, for a full bound.")
INGEST_RETRIES = Counter("foldline_ingest_retries_total", "Requests made again before any output.", ["reason"])
UPSTREAM_FAILURES = Counter("foldline_upstream_failures_total", "Turns that failed upstream, by code.", ["code"])
FIRST_TOKEN = Histogram("foldline_first_token_seconds", "From submit to the first text delta published.", buckets=SLOW)

# fold
FOLD_EVENTS = Counter("foldline_fold_events_total", "Events folded.")
FOLD_FRAMES = Counter("foldline_fold_frames_total", "Frames committed.")
FOLD_BLOCKS = Counter("foldline_fold_blocks_total", "Blocks committed.")
FOLD_BATCH = Histogram("foldline_fold_batch_entries", "Log entries of one commit.", buckets=SIZES)
FOLD_COMMIT = Histogram("foldline_fold_commit_seconds", "Time of one commit.", buckets=QUICK)
FOLD_REBUILD = Histogram("foldline_fold_rebuild_seconds", "Time of the rebuild after a take-over.", buckets=SLOW)
FOLD_LAG = Gauge("foldline_lag_events", "Events published and not yet folded.", ["partition"])
FOLD_INFLIGHT = Gauge("foldline_inflight_turns", "Unfinished turns of a partition.", ["partition"])
TURNS_ENDED = Counter("foldline_turns_total", "Turns ended, by state.", ["state"])
TURNS_FAILED = Counter("foldline_turns_failed_total", "Turns that foldline ended by name, by code.", ["code"])
FIRST_BLOCK = Histogram("foldline_first_block_seconds", "From submit to the first block committed.", buckets=SLOW)
LOG_TRIMMED = Counter("foldline_log_trimmed_entries_total", "Log entries trimmed behind the low-water mark.")

# delivery
DELIVERIES = Counter(
    "foldline_deliveries_total", "Deliveries by channel and the state they came to.", ["channel", "state"]
)
ATTEMPTS = Counter("foldline_delivery_attempts_total", "Send attempts by channel and outcome.", ["channel", "outcome"])
SEND = Histogram("foldline_delivery_send_seconds", "Time of one send.", ["channel"], buckets=SLOW)
FIRST_MESSAGE = Histogram("foldline_first_message_seconds", "From submit to the first delivery sent.", buckets=SLOW)
DUPLICATES = Counter(
    "foldline_duplicates_detected_total", "Receipts of an attempt after another was made.", ["channel"]
)
ASKED = Counter(
    "foldline_deliveries_asked_total", "Channels asked for a delivery, by their answer.", ["channel", "found"]
)
RESENT = Counter("foldline_resent_unproven_total", "Sends repeated under an operator's waiver.", ["channel"])
UNKNOWN_COUNT = Gauge("foldline_unknown_deliveries", "Deliveries whose outcome is unknown.", ["partition"])
UNKNOWN_AGE = Gauge("foldline_unknown_oldest_seconds", "Age of the oldest of them.", ["partition"])
DEAD_COUNT = Gauge("foldline_dead_deliveries", "Deliveries given up.", ["partition"])
LATE_COUNT = Gauge(
    "foldline_late_deliveries", "Deliveries settled after their lane had gone on without them.", ["partition"]
)
DEAD_AGE = Gauge("foldline_dead_oldest_seconds", "Age of the oldest of them.", ["partition"])
LANES_WAITING = Gauge("foldline_lanes_waiting", "Lanes with something to send.", ["partition"])

# gateway
HTTP_REQUESTS = Counter("foldline_http_requests_total", "Requests by route and status.", ["route", "status"])
CLIENTS = Gauge("foldline_clients", "Streaming clients connected.")
CLIENT_FRAMES = Counter("foldline_client_frames_total", "Frames written to clients.")
CLIENT_CATCHUPS = Counter("foldline_client_catchups_total", "Times a client was served from the stream.", ["reason"])
CLIENTS_ENDED = Counter("foldline_clients_ended_total", "Streams ended by the gateway itself, by code.", ["code"])
ADMISSION_REFUSED = Counter("foldline_admission_refused_total", "Submits refused at a bound.", ["bound"])
TURNS_SUBMITTED = Counter("foldline_turns_submitted_total", "Turns accepted.")
EXTERNAL_EVENTS = Counter("foldline_external_events_total", "Events taken from external producers.")
SHADOW_MESSAGES = Counter("foldline_shadow_messages_total", "Messages that other paths say they sent.", ["runtime"])
SHADOW_ASIDE = Counter(
    "foldline_shadow_aside_total", "Reports of other paths that were put aside, by reason.", ["code"]
)
