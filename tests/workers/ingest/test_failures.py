import pytest

from pipeline.events import ErrorInfo
from workers.ingest.failures import Phase, RetryRules, SourceError, code_of, refused, retry_after_ms, retry_delay_ms

RULES = RetryRules(retries=3, base_ms=100, max_ms=1_000, side_effects=True)
HARMLESS = RetryRules(retries=3, base_ms=100, max_ms=1_000, side_effects=False)
NOW_MS = 1_700_000_000_000


def failure(
    phase: Phase, status: int | None = None, retry_after: int | None = None, said: str | None = None
) -> SourceError:
    info = ErrorInfo(code="upstream_rate_limited", type=said)
    return SourceError(info, phase, status=status, retry_after_ms=retry_after)


@pytest.mark.parametrize(
    ("failed", "rules", "attempt", "delay"),
    [
        (failure(Phase.CONNECT), RULES, 1, 100),
        (failure(Phase.CONNECT), RULES, 2, 200),
        (failure(Phase.CONNECT), RULES, 3, 400),
        (failure(Phase.CONNECT), RULES, 4, None),
        (failure(Phase.ANSWER), RULES, 1, None),
        (failure(Phase.ANSWER), HARMLESS, 1, 100),
        (failure(Phase.BODY), HARMLESS, 1, None),
        (failure(Phase.STATUS, 429), RULES, 1, 100),
        (failure(Phase.STATUS, 503), RULES, 1, 100),
        (failure(Phase.STATUS, 529), RULES, 1, 100),
        (failure(Phase.STATUS, 500), RULES, 1, None),
        (failure(Phase.STATUS, 401), RULES, 1, None),
        (failure(Phase.STATUS, 429, 700), RULES, 1, 700),
        (failure(Phase.STATUS, 429, 10), RULES, 2, 200),
        (failure(Phase.STATUS, 429, 1_001), RULES, 1, None),
        (failure(Phase.STATUS, 429, said="insufficient_quota"), RULES, 1, None),
    ],
)
def test_a_request_is_made_again_only_where_nothing_can_have_happened(
    failed: SourceError, rules: RetryRules, attempt: int, delay: int | None
) -> None:
    assert retry_delay_ms(failed, attempt, rules) == delay


def test_backoff_never_passes_its_bound() -> None:
    rules = RetryRules(retries=100, base_ms=100, max_ms=1_000, side_effects=True)
    assert retry_delay_ms(failure(Phase.CONNECT), 90, rules) == 1_000


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2_000),
        ({"Retry-After": "0.5"}, 500),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:25 GMT"}, 5_000),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:25 -0000"}, 5_000),
        ({"Retry-After": "Mon, 13 Nov 2023 22:13:25 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 250),
        ({"retry-after-ms": "nan"}, None),
    ],
)
def test_the_upstream_says_how_long_to_wait(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after_ms(headers, NOW_MS) == expected


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "upstream_unauthorized"),
        (403, "upstream_unauthorized"),
        (429, "upstream_rate_limited"),
        (500, "upstream_server_error"),
        (529, "upstream_server_error"),
        (404, "upstream_bad_request"),
        (302, "upstream_bad_response"),
        (204, "upstream_bad_response"),
    ],
)
def test_each_kind_of_status_has_its_code(status: int, code: str) -> None:
    assert code_of(status) == code


def test_the_upstreams_words_are_kept_beside_our_code() -> None:
    body = b'{"error":{"message":"Slow down.","type":"requests","param":"model","code":"rate_limit_exceeded"}}'
    failed = refused(429, {"Content-Type": "application/json", "Retry-After": "1"}, body, NOW_MS)
    assert failed.error.code == "upstream_rate_limited"
    assert failed.error.message == "Slow down."
    assert failed.error.type in {"rate_limit_exceeded", "requests"}
    assert failed.error.param == "model"
    assert (failed.status, failed.retry_after_ms, failed.phase) == (429, 1_000, Phase.STATUS)
