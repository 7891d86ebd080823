"""Why an upstream failed, read out of whatever it answered."""

import json
from typing import Any

import pytest

from pipeline.events import ErrorInfo
from pipeline.limits import Limits
from pipeline.normalize.failures import error_in, error_in_text, http_error


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (401, {"error": {"message": "bad key", "type": "t", "code": "invalid_api_key", "param": None}}, "invalid_api_key", "bad key"),
        (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, "rate_limit_error", "slow down"),
        (429, {"error": {"message": "slow down"}}, "rate_limit_exceeded", "slow down"),
        (500, {"error": "boom"}, "server_error", "boom"),
        (400, {"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}, "400", "m"),
        (400, [{"error": {"code": 400, "message": "m"}}], "400", "m"),
        (422, {"detail": [{"loc": ["body"], "msg": "x"}]}, "invalid_request", '[{"loc":["body"],"msg":"x"}]'),
        (404, {"detail": "Not Found"}, "not_found", "Not Found"),
        (400, {"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, "400", "m"),
        (403, {"message": "no"}, "permission_denied", "no"),
        (500, {}, "server_error", "{}"),
        (418, {"x": 1}, "http_418", '{"x": 1}'),
        (599, {"x": 1}, "server_error", '{"x": 1}'),
    ],
)  # fmt: skip
def test_json_answers_are_read_in_every_form(status: int, body: Any, code: str, message: str) -> None:
    told = http_error(status, {"content-type": "application/json"}, json.dumps(body).encode())
    assert (told.code, told.message) == (code, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><head><title>502 Bad\n Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (b"<!doctype html><style>a{}</style><script>x()</script><p>Too many &amp; more</p>", "Too many & more"),
        (b"<title> </title><h1>Down</h1>", "Down"),
        (b"<!-- a > b --><P>Do<!---->wn</P><SCRIPT>x", "Do wn"),
        (b"<p>Down</p><style>a", "Down"),
        (b"<title>cut", "cut"),
        (b"plain  text\n", "plain text"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", "the upstream answered HTTP 502"),
        (b"<html></html>", "the upstream answered HTTP 502"),
        (b'{"cut', '{"cut'),
    ],
)
def test_pages_and_text_are_read_by_their_words(body: bytes, message: str) -> None:
    assert http_error(502, {"Content-Type": "text/html"}, body) == ErrorInfo(code="bad_gateway", message=message)


def test_an_endless_page_is_kept_short() -> None:
    limits = Limits(error_message_chars=10)
    assert len(http_error(500, {}, b"y" * 10_000_000, limits).message) == 10
    assert len(http_error(500, {}, json.dumps({"error": {"message": "y" * 99}}).encode(), limits).message) == 10
    for piece in (b"<", b"<script", b"<title", b"<!--", b"<script></script ", b"<a "):
        assert len(http_error(500, {}, piece * 300_000, limits).message) <= 34


@pytest.mark.parametrize("text", [b"", b"hello", b"[]", b"[5]", b"{}", b'{"a":1}', b'{"error": null}', b'error: {"a'])
def test_text_without_an_error_has_none(text: bytes) -> None:
    assert error_in_text(text) is None


def test_an_error_is_found_on_the_first_of_several_lines() -> None:
    assert error_in_text(b'error: {"error":{"code":"c","message":"m"}}\n{"x') == ErrorInfo(code="c", message="m")


def test_members_of_any_type_are_read() -> None:
    assert error_in({"error": {"code": True, "message": {"a": 1}, "param": 5, "type": "t"}}) == ErrorInfo(
        code="t", message='{"a":1}', type="t", param="5"
    )
    assert error_in({"error": True, "message": "m"}) == ErrorInfo(code="upstream_error", message="m")
    assert error_in({"error": "e", "code": 7, "message": "m"}) == ErrorInfo(code="7", message="m")
    assert error_in({"type": "error", "status": 400}) == ErrorInfo(code="400")
