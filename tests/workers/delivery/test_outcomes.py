import json

import pytest

from ledger.parts import Verdict
from workers.delivery.channels.webhook import judge
from workers.delivery.outcomes import LONGEST_RETRY_AFTER_MS, Hold, lost, not_sent, parse_retry_after

KEY, NONE = True, False


@pytest.mark.parametrize(
    ("status", "is_keyed", "verdict", "proven"),
    [
        (200, KEY, Verdict.SENT, False),
        (204, NONE, Verdict.SENT, False),
        (301, KEY, Verdict.DEAD, False),
        (307, NONE, Verdict.DEAD, False),
        (400, KEY, Verdict.DEAD, False),
        (401, NONE, Verdict.DEAD, False),
        (404, KEY, Verdict.DEAD, False),
        (408, NONE, Verdict.RETRY, True),
        (409, KEY, Verdict.SENT, False),
        (409, NONE, Verdict.DEAD, False),
        (410, KEY, Verdict.DEAD, False),
        (425, KEY, Verdict.RETRY, True),
        (429, NONE, Verdict.RETRY, True),
        (500, KEY, Verdict.RETRY, False),
        (500, NONE, Verdict.UNKNOWN, False),
        (503, KEY, Verdict.RETRY, False),
        (504, NONE, Verdict.UNKNOWN, False),
        (599, KEY, Verdict.RETRY, False),
    ],
)
def test_a_status_says_what_the_receiver_did(status: int, *, is_keyed: bool, verdict: Verdict, proven: bool) -> None:
    outcome = judge(status, is_keyed=is_keyed)
    assert (outcome.verdict, outcome.proven, outcome.status) == (verdict, proven, status)


def test_only_a_rate_limit_holds_the_account() -> None:
    assert judge(429, is_keyed=KEY, retry_after="7").holds == (Hold(wait_ms=7_000),)
    assert not judge(503, is_keyed=KEY, retry_after="7").holds


def test_a_receivers_own_wait_is_kept_for_retries_alone() -> None:
    assert judge(503, is_keyed=KEY, retry_after="7").retry_after_ms == 7_000
    assert judge(410, is_keyed=KEY, retry_after="7").retry_after_ms is None


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("0", 0),
        (" 120 ", 120_000),
        ("999999999999", LONGEST_RETRY_AFTER_MS),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50_000),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
    ],
)
def test_retry_after_is_read_in_both_forms(text: str | None, wait_ms: int | None) -> None:
    assert parse_retry_after(text, now_ms=10_000) == wait_ms


def test_a_receipt_is_plain_json_without_empty_members() -> None:
    assert json.loads(lost("deadline").as_receipt()) == {"verdict": "unknown", "reason": "deadline"}
    assert json.loads(not_sent("dns", "no such host").as_receipt())["detail"] == "no such host"
