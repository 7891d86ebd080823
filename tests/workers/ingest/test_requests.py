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
    request = build(UPSTREAM, '{"model":"m","stream":false,"background":true}', ENVIRON)
    assert msgspec.json.decode(request.body or b"") == {"model": "m", "stream": True}


def test_unknown_members_pass_byte_for_byte() -> None:
    request = build(UPSTREAM, '{"temperature":1.10,"seed":12345678901234567890123,"x":{"a" : 1}}', ENVIRON)
    assert request.body == b'{"temperature":1.10,"seed":12345678901234567890123,"x":{"a" : 1},"stream":true}'


def test_a_missing_key_is_named_by_its_variable() -> None:
    with pytest.raises(RequestError, match="SOME_KEY"):
        build(UPSTREAM, "{}", {})


def test_a_key_that_cannot_stand_in_a_header_is_named_by_its_variable_alone() -> None:
    with pytest.raises(RequestError, match="SOME_KEY holds no key: there is white space") as refused:
        build(UPSTREAM, "{}", {"SOME_KEY": "sk-secret\nX-Other: 1"})
    assert "sk-secret" not in str(refused.value)


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


CHAT = UpstreamConfig(base_url="https://api.test/v1", wire="chat", api_key_env="SOME_KEY")
MESSAGES = UpstreamConfig(base_url="https://api.test/v1", wire="messages", api_key_env="SOME_KEY")


def test_each_wire_is_asked_in_its_own_form_at_its_own_path_with_its_own_key_header() -> None:
    chat = build(CHAT, '{"model":"m","input":"hi"}', ENVIRON)
    assert chat.url == "https://api.test/v1/chat/completions"
    assert chat.headers["Authorization"] == "Bearer sk-very-secret"
    assert msgspec.json.decode(chat.body or b"")["messages"] == [{"role": "user", "content": "hi"}]
    messages = build(MESSAGES, '{"model":"m","input":"hi"}', ENVIRON)
    assert messages.url == "https://api.test/v1/messages"
    assert (messages.headers["x-api-key"], messages.headers["anthropic-version"]) == ("sk-very-secret", "2023-06-01")
    assert "Authorization" not in messages.headers
    assert msgspec.json.decode(messages.body or b"")["max_tokens"] == 8192


def test_the_configuration_rules_over_the_wire_s_path_and_headers() -> None:
    upstream = UpstreamConfig(
        base_url="http://x", wire="messages", path="/other", headers={"Anthropic-Version": "2030-01-01"}
    )
    request = build(upstream, '{"input":"hi"}', {})
    assert request.url == "http://x/other"
    assert [value for name, value in request.headers.items() if name.lower() == "anthropic-version"] == ["2030-01-01"]


def test_a_verbatim_body_passes_byte_for_byte_and_is_a_stream() -> None:
    for upstream in (UPSTREAM, CHAT, MESSAGES):
        sent = build(upstream, '{"messages":[1.10],"stream_options":{"x":1},"foldline":{"verbatim":true}}', ENVIRON)
        assert sent.body == b'{"messages":[1.10],"stream_options":{"x":1},"stream":true}'


def test_our_own_member_never_goes_upstream() -> None:
    for ours in ('{"verbatim":false}', "null", "{}", "3"):
        body = build(UPSTREAM, f'{{"input":"hi","foldline":{ours}}}', ENVIRON).body
        assert body == b'{"input":"hi","stream":true}'


def test_what_the_wire_cannot_say_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match=r"max_tool_calls .*wire chat") as caught:
        build(CHAT, '{"input":"hi","max_tool_calls":3}', ENVIRON)
    assert caught.value.code == "upstream_request_unsupported"


GEMINI = UpstreamConfig(base_url="https://api.test/v1beta", wire="gemini", api_key_env="SOME_KEY")


def test_a_gemini_upstream_is_asked_by_a_path_that_names_the_model() -> None:
    request = build(GEMINI, '{"model":"models/odd name","input":"hi","stream":true}', ENVIRON)
    assert request.url == "https://api.test/v1beta/models/models%2Fodd%20name:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == "sk-very-secret"
    assert msgspec.json.decode(request.body or b"") == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    with pytest.raises(RequestError, match="no model"):
        build(GEMINI, '{"input":"hi"}', ENVIRON)


def test_a_verbatim_gemini_body_says_neither_model_nor_stream() -> None:
    request = build(GEMINI, '{"model":"m","contents":[1.10],"foldline":{"verbatim":true}}', ENVIRON)
    assert request.body == b'{"contents":[1.10]}'
