"""Targets in the configuration: what each channel needs, where messages go, what may be promised."""

from typing import Any

import pytest

from workers.config import Config, DeliveryConfig, TargetConfig, UpstreamConfig, check, load
from workers.config.channels import base_url_of, key_window_of, promise_of, split_recipient

CHAT: dict[str, Any] = {"channel": "discord", "token_env": "T", "recipient": "1"}


def target(**settings: Any) -> TargetConfig:
    return TargetConfig(**{**CHAT, **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"recipient": "1/2/3"}, ""),
        ({"recipient": "", "open_recipient": True}, ""),
        ({"token_env": ""}, "targets.t.token_env: the name of the variable"),
        ({"recipient": ""}, "targets.t.recipient: CHAT, CHAT/THREAD or CHAT/THREAD/REPLY is expected, or open_recipient"),
        ({"recipient": "/2"}, "targets.t.recipient: CHAT, CHAT/THREAD or CHAT/THREAD/REPLY is expected, found '/2'"),
        ({"recipient": "1/2/3/4"}, "targets.t.recipient"),
        ({"channel": "matrix"}, "targets.t.base_url: an http or https URL is expected"),
        ({"channel": "matrix", "base_url": "http://x"}, ""),
        ({"base_url": "ftp://x"}, "targets.t.base_url"),
    ],
)  # fmt: skip
def test_a_chat_channel_needs_a_token_an_address_and_somewhere_to_call(settings: dict[str, Any], said: str) -> None:
    problems = check(Config(targets={"t": target(**settings)}))
    assert (said in problems[0]) if said else not problems


@pytest.mark.parametrize("secret", ["xoxb-1-hidden", "42:hidden", "whsec_aGlkZGVu"])
@pytest.mark.parametrize("setting", ["upstreams.u.api_key_env", "targets.t.token_env", "targets.t.secret_env"])
def test_a_secret_in_place_of_its_variables_name_is_refused_and_not_repeated(setting: str, secret: str) -> None:
    field = setting.rpartition(".")[2]
    upstreams = {"u": UpstreamConfig(base_url="http://x", api_key_env=secret)} if "api_key" in field else {}
    targets = {} if upstreams else {"t": target(**{field: secret})}
    problems = check(Config(upstreams=upstreams, targets=targets))
    assert problems == [f"{setting}: the name of the variable that holds the secret is expected"]


def test_a_quarantine_must_end_before_a_channels_own_window() -> None:
    slow = DeliveryConfig(lease_ms=120_000)
    assert any(
        "targets.t.key_window_ms (120000)" in said for said in check(Config(targets={"t": target()}, delivery=slow))
    )
    assert not check(Config(targets={"t": target(key_window_ms=0)}, delivery=slow))
    assert not check(Config(targets={"t": target(channel="slack")}, delivery=slow))


@pytest.mark.parametrize(
    ("settings", "window_ms", "promise"),
    [
        ({}, 120_000, "key"),
        ({"key_window_ms": 90_000}, 90_000, "key"),
        ({"key_window_ms": 59_999}, 0, "reconcile"),
        ({"channel": "slack"}, 0, "reconcile"),
        ({"channel": "telegram"}, 0, "none"),
        ({"channel": "matrix"}, 86_400_000, "key"),
        ({"channel": "matrix", "key_window_ms": 0}, 0, "none"),
        ({"channel": "console"}, 0, "none"),
        ({"channel": "webhook"}, 86_400_000, "key"),
        ({"channel": "webhook", "key_window_ms": 60_000}, 60_000, "key"),
        ({"channel": "webhook", "key_window_ms": 1}, 0, "none"),
        ({"channel": "webhook", "key_window_ms": 1, "reconcile_url": "http://x/{id}"}, 0, "reconcile"),
    ],
)
def test_what_a_target_promises(settings: dict[str, Any], window_ms: int, promise: str) -> None:
    assert (key_window_of(target(**settings)), promise_of(target(**settings))) == (window_ms, promise)


def test_a_channel_has_its_own_address_unless_another_is_given() -> None:
    assert base_url_of(target()) == "https://discord.com/api/v10"
    assert base_url_of(target(base_url="http://127.0.0.1:1/")) == "http://127.0.0.1:1"


def test_a_tokens_variable_is_no_setting(tmp_path: Any) -> None:
    file = tmp_path / "foldline.toml"
    file.write_text("[targets.t]\nchannel = 'slack'\ntoken_env = 'FOLDLINE_BOT'\nrecipient = 'C1'\n")
    assert load(file, {"FOLDLINE_BOT": "secret"}).targets["t"].token_env == "FOLDLINE_BOT"
    assert load(file, {"FOLDLINE_TARGETS_T_RATE_PER_S": "2.5"}).targets["t"].rate_per_s == 2.5


TARGETS = {"room": target(), "open": target(open_recipient=True, recipient=""), "odd:name": target()}


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("room", ("room", None)),
        ("odd:name", ("odd:name", None)),
        ("open:1", ("open", "1")),
        ("open:!a:b/$c", ("open", "!a:b/$c")),
    ],
)
def test_a_submitter_names_a_target_and_where_it_allows_that_a_recipient(
    named: str, expected: tuple[str, str | None]
) -> None:
    assert split_recipient(TARGETS, named) == expected


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nowhere", "no target is named 'nowhere'"),
        ("nowhere:1", "no target is named"),
        ("room:1", "target 'room' sends to its own recipient alone"),
        ("open:", "a recipient is CHAT"),
        ("open:/x", "a recipient is CHAT"),
        ("open:a/b/c/d", "a recipient is CHAT"),
        ("open:a\nb", "a recipient is CHAT"),
        ("open:" + "x" * 257, "a recipient is CHAT"),
    ],
)
def test_what_a_submitter_may_not_name_is_refused_in_words(named: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        split_recipient(TARGETS, named)
