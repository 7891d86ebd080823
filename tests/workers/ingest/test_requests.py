import msgspec
import pytest

from workers.config import UpstreamConfig
from workers.ingest.requests import RequestError, build, build_cancel, build_reattach

UPSTREAM = UpstreamConfig(base_url="https://api.test/v1/", api_key_env="SOME_KEY", headers={"X-Team": "blue"})
ENVIRON = {"SOME_KEY": "sk-very-secret"}


def test_the_key_goes_into_one_header_and_into_no_print() -> None:
    request = build(UPSTREAM, '{"model":"m","input":"hi"}', ENVIRON)
    assert request.url == "https://api.test/v1/responses"
    assert request.headers["Authorization"] == "Bearer sk-very-secret"
    assert request.headers["X-Team"] == "blue"
    assert b"sk-very-secret" not in (request.body or b"")
    assert "sk-very-secret" not in repr(request)


def test_upstream_is_always_asked_for_a_stream_that_ends_with_the_connection() -> None:
    request = build(UPSTREAM, '{"model":"m","stream":false,"background":true,"stream_options":{}}', ENVIRON)
    assert msgspec.json.decode(request.body or b"") == {"model": "m", "stream": True}


def test_unknown_members_pass_byte_for_byte() -> None:
    request = build(UPSTREAM, '{"temperature":1.10,"seed":12345678901234567890123,"x":{"a" : 1}}', ENVIRON)
    assert request.body == b'{"temperature":1.10,"seed":12345678901234567890123,"x":{"a" : 1},"stream":true}'


def test_a_missing_key_is_named_by_its_variable() -> None:
    with pytest.raises(RequestError, match="SOME_KEY"):
        build(UPSTREAM, "{}", {})


def test_an_upstream_without_a_key_gets_no_authorization() -> None:
    assert "Authorization" not in build(UpstreamConfig(base_url="http://x"), "{}", ENVIRON).headers


def test_a_request_that_is_no_object_is_refused() -> None:
    with pytest.raises(RequestError, match="no JSON object"):
        build(UPSTREAM, "[1]", ENVIRON)


def test_a_resumable_upstream_is_asked_for_a_response_that_outlives_the_connection() -> None:
    upstream = UpstreamConfig(base_url="http://x/v1", resumable=True)
    body = msgspec.json.decode(build(upstream, '{"store":false}', {}).body or b"")
    assert body == {"background": True, "store": True, "stream": True}
    again = build_reattach(upstream, "resp/1", {})
    assert (again.method, again.url, again.body) == ("GET", "http://x/v1/responses/resp%2F1?stream=true", None)
    assert build_cancel(upstream, "resp_1", {}).url == "http://x/v1/responses/resp_1/cancel"
