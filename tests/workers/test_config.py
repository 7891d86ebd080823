from pathlib import Path

import pytest

from workers.config import Config, ConfigError, check, load, load_with_sources, streaming
from workers.config.checks import WIRES
from workers.config.schema import DeliveryConfig, FoldConfig, RedisConfig, TargetConfig
from workers.upstream.dialects import DIALECTS


def write(folder: Path, text: str) -> Path:
    file = folder / "foldline.toml"
    file.write_text(text)
    return file


def test_the_defaults_keep_every_inequality() -> None:
    assert check(Config()) == []


def test_the_environment_stands_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, '[redis]\nurl = "redis://file:1/0"\nprefix = "x"\n')

    loaded = load_with_sources(file, {"FOLDLINE_REDIS_URL": "redis://env:2/0"})

    sources = {setting.key: (setting.value, setting.source) for setting in loaded.settings}
    assert sources["redis.url"] == ("redis://env:2/0", "FOLDLINE_REDIS_URL")
    assert sources["redis.prefix"] == ("x", str(file))
    assert sources["redis.partitions"] == (16, "default")


def test_the_file_is_named_by_a_variable_or_lies_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "[gateway]\nport = 9000\n")
    assert load(None, {"FOLDLINE_CONFIG": str(file)}).gateway.port == 9000
    monkeypatch.chdir(tmp_path)
    assert load(None, {}).gateway.port == 9000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[redis]\nurll = 'x'\n", "redis.urll: unknown key"),
        ("[nothing]\nx = 1\n", "nothing: unknown section"),
        ("redis = 3\n", "redis: a table is expected"),
        ("[upstreams]\nmain = 3\n", "upstreams.main: a table is expected"),
        ("[upstreams.main]\n", "upstreams.main: the table is empty"),
        ("[upstreams.main]\nbase_url = 'http://x'\nkey = 'secret'\n", "upstreams.main.key: unknown key"),
        ("[redis]\npartitions = 'many'\n", "redis.partitions"),
        ("[upstreams.main]\nwire = 'responses'\n", "base_url"),
        (
            "[upstreams.main]\nwire = 'respones'\nbase_url = 'http://x'\n",
            "upstreams.main.wire: one of responses, chat, messages, gemini, acp is expected, found 'respones'",
        ),
        ("[redis]\ndurable = 'yes'\n", "redis.durable: one of none, waitaof, wait is expected, found 'yes'"),
        ("[targets.t]\nchannel = 'email'\n", "targets.t.channel: one of console, webhook, discord"),
        ("[redis\n", "foldline.toml"),
        ("[upstreams.main]\nbase_url = 'ftp://x'\n", "upstreams.main.base_url: an http"),
        ("[upstreams.a]\nwire = 'acp'\ncwd = '/'\n", "upstreams.a.command: a program"),
        ("[upstreams.a]\nwire = 'acp'\ncommand = ['x']\ncwd = 'here'\n", "upstreams.a.cwd: the full path"),
        ("[upstreams.a]\nwire = 'acp'\ncommand = ['x']\ncwd = '/'\npermission = 'ask'\n", "upstreams.a"),
        ("[upstreams.main]\nbase_url = 'http://x'\nruntime = 'acp'\n", "acp belongs to the wire acp"),
        (
            "[upstreams.main]\nbase_url = 'https://me:pw@x'\n",
            "upstreams.main.base_url: a URL without user and password",
        ),
        ("[upstreams.main]\nbase_url = 'https://x'\nca_file = 'ca.pem'\n", "upstreams.main.ca_file: the full path"),
        (
            "[upstreams.main]\nbase_url = 'http://x'\nca_file = '/ca.pem'\n",
            "upstreams.main.ca_file: it belongs to an https",
        ),
        ("[upstreams.main]\nbase_url = 'http://x'\nproxy = 'socks5://p:1'\n", "upstreams.main.proxy: http://HOST:PORT"),
        ("[upstreams.main]\nbase_url = 'http://x'\nproxy = 'http://p'\n", "upstreams.main.proxy: http://HOST:PORT"),
        ("[upstreams.main]\nbase_url = 'http://x'\nproxy = 'http://p:x'\n", "upstreams.main.proxy: http://HOST:PORT"),
        ("[upstreams.main]\nbase_url = 'http://x'\nproxy = 'http://me:pw@p:1'\n", "in the variable of proxy_auth_env"),
        (
            "[upstreams.main]\nbase_url = 'http://x'\nproxy_auth_env = 'P'\n",
            "upstreams.main.proxy_auth_env: there is no proxy",
        ),
        (
            "[upstreams.a]\nwire = 'acp'\ncommand = ['x']\ncwd = '/'\nproxy = 'http://p:1'\n",
            "upstreams.a.proxy: an agent is reached by its command",
        ),
        ("[ingest]\nmax_agents = 0\n", "ingest.max_agents: a number above 0"),
        ("[targets.t]\nchannel = 'webhook'\n", "targets.t.url: an http"),
        ("[gateway]\ndefault_upstream = 'gone'\n", "no upstream is named 'gone'"),
        ("[ingest]\nlag_low = 30000\n", "lag_low"),
        ("[retention]\npart_ms = 172800000\n", "whose a delivery is"),
        ("[limits]\nsilence_ms = 4000\n", "limits.silence_ms (4000) must be at least ingest.lease_ms (5000)"),
        ("[redis]\nprefix = 'a{b'\n", "redis.prefix"),
        ("[redis]\npartitions = 0\n", "redis.partitions"),
        ("[fold]\ntake_count = 0\n", "fold.take_count: a number above 0"),
        ("[gateway]\nport = 70000\n", "gateway.port"),
        ("[gateway]\npoll_ms = 5000\n", "gateway.poll_ms"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, text), {})
    assert said in str(refused.value)


def test_the_wires_of_the_configuration_are_those_that_a_request_can_be_put_to() -> None:
    assert set(WIRES) == set(DIALECTS)


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FOLDLINE_REDIS_URLL", "x"),
        ("FOLDLINE_RDIS_URL", "x"),
        ("FOLDLINE_REDIS_PARTITIONS", "many"),
        ("FOLDLINE_UPSTREAMS_MAIN_HEADERS", "{"),
        ("FOLDLINE_UPSTREAMS_BASE_URL", "http://x"),
    ],
)
def test_a_variable_that_names_no_setting_or_holds_nonsense_is_refused(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        load(None, {variable: value})


def test_variables_reach_every_kind_of_value() -> None:
    config = load(
        None,
        {
            "FOLDLINE_REDIS_CLUSTER": "true",
            "FOLDLINE_REDIS_PARTITIONS": "4",
            "FOLDLINE_SERVICE_PORT": "0",
            "FOLDLINE_GATEWAY_CORS": "http://a, http://b",
            "FOLDLINE_UPSTREAMS_MAIN_BASE_URL": "http://127.0.0.1:1",
            "FOLDLINE_UPSTREAMS_MAIN_MODELS": '["m1", "m2"]',
            "FOLDLINE_UPSTREAMS_MAIN_HEADERS": '{"x-a": "b"}',
            "FOLDLINE_UPSTREAMS_MAIN_API_KEY_ENV": "FOLDLINE_SECRET",
            "FOLDLINE_SECRET": "sk-1",
            "FOLDLINE_TEST_SERVER": "redis-server",
            "FOLDLINE_FAILPOINTS": "",
            "FOLDLINE_TARGETS_OUT_CHANNEL": "console",
        },
    )

    assert config.redis.cluster is True
    assert config.redis.partitions == 4
    assert config.service.port == 0
    assert config.gateway.cors == ["http://a", "http://b"]
    assert config.upstreams["main"].models == ["m1", "m2"]
    assert config.upstreams["main"].headers == {"x-a": "b"}
    assert config.upstreams["main"].api_key_env == "FOLDLINE_SECRET"
    assert config.targets["out"].channel == "console"


def test_a_variable_finds_an_entry_of_the_file_whose_name_has_a_dash(tmp_path: Path) -> None:
    file = write(tmp_path, "[upstreams.my-api]\nbase_url = 'http://a'\n")
    assert load(file, {"FOLDLINE_UPSTREAMS_MY_API_BASE_URL": "http://b"}).upstreams["my-api"].base_url == "http://b"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(fold=FoldConfig(renew_ms=2000)), "fold.renew_ms"),
        (Config(redis=RedisConfig(block_ms=6000)), "redis.block_ms"),
        (Config(delivery=DeliveryConfig(send_deadline_ms=11_000)), "delivery.send_deadline_ms"),
        (
            Config(targets={"t": TargetConfig(channel="webhook", url="http://x", key_window_ms=60_000)}, delivery=DeliveryConfig(lease_ms=60_000)),
            "targets.t.key_window_ms",
        ),
    ],
)  # fmt: skip
def test_each_inequality_is_checked(config: Config, said: str) -> None:
    assert any(said in problem for problem in check(config))


def test_an_agents_turns_are_of_the_runtime_acp(tmp_path: Path) -> None:
    file = write(tmp_path, "[upstreams.a]\nwire = 'acp'\ncommand = ['x']\ncwd = '/'\n")
    assert load(file, {}).upstreams["a"].runtime_name == "acp"


STREAMING = """
[streaming]
min_chars = 100
[streaming.runtime.acp]
max_chars = 500
[streaming.channel.discord]
max_chars = 400
[streaming.account.ops]
break = "newline"
"""


def test_streaming_settings_are_merged_over_account_channel_runtime_and_all(tmp_path: Path) -> None:
    file = write(tmp_path, STREAMING)
    loaded = load_with_sources(file, {"FOLDLINE_STREAMING_IDLE_MS": "70"})
    made = streaming.resolved(loaded.config.streaming, runtime="acp", channel="discord", account="ops")
    values = {key: (made.values[key], made.sources[key]) for key in ("min_chars", "max_chars", "idle_ms", "break")}
    assert values == {
        "min_chars": (100, "streaming"),
        "max_chars": (400, "streaming.channel.discord"),
        "idle_ms": (70, "streaming"),
        "break": ("newline", "streaming.account.ops"),
    }
    sources = {setting.key: setting.source for setting in loaded.settings}
    assert sources["streaming.channel.discord.max_chars"] == str(file)
    assert sources["streaming.idle_ms"] == "FOLDLINE_STREAMING_IDLE_MS"
    assert streaming.resolved(loaded.config.streaming, runtime="main", channel="slack").values["max_chars"] == 1200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[streaming]\nmin_chars = 'x'\n", "streaming.min_chars = 'x': a number from 1 to 1000000 is expected"),
        ("[streaming.runtime.acp]\nspeed = 1\n", "streaming.runtime.acp.speed = 1: unknown key"),
        ("[streaming.runtime.own]\nmin_chars = 1\n", "streaming.runtime.own: unknown runtime"),
        ("[streaming.channel.smoke]\nmin_chars = 1\n", "streaming.channel.smoke: unknown channel"),
        ("[streaming]\nchannel = 3\n", "streaming.channel = 3: a table is expected"),
        ("[streaming.account]\nops = 3\n", "streaming.account.ops = 3: a table is expected"),
        ("[targets.a]\nchannel = 'console'\nlimit = 10\n", "targets.a.limit: no limit is expected"),
    ],
)
def test_a_wrong_streaming_setting_is_refused_with_key_value_and_file(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert said in str(refused.value)
    assert "targets" in said or str(file) in str(refused.value)


@pytest.mark.parametrize("variable", ["FOLDLINE_STREAMING_SPEED", "FOLDLINE_STREAMING_MIN_CHARS"])
def test_a_streaming_variable_is_checked_like_the_file(variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        load(None, {variable: "many"})
