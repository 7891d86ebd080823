"""Addresses of servers: what they say, and which are refused."""

import pytest

from workers.config import Config, RedisConfig
from workers.config.addresses import Sentinels, is_tls, problem_of, read_sentinels
from workers.config.checks import check


def test_an_address_of_sentinels_names_hosts_service_database_and_login() -> None:
    assert read_sentinels("redis+sentinel://me:p%40ss@one:5000,two,[::1]:5001/main/3", asks_login=True) == Sentinels(
        hosts=(("one", 5000), ("two", 26379), ("::1", 5001)),
        service="main",
        database=3,
        username="me",
        password="p@ss",
        tls=False,
        asks_login=True,
    )
    plain = read_sentinels("rediss+sentinel://one/main")
    assert plain is not None
    assert (plain.tls, plain.username, plain.password, plain.database) == (True, None, None, 0)
    assert read_sentinels("redis://one/0") is None


def test_a_password_may_stand_without_a_user() -> None:
    found = read_sentinels("redis+sentinel://:word@one/main")
    assert found is not None
    assert (found.username, found.password) == (None, "word")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://one", "is expected, found 'http'"),
        ("redis+sentinel://one", "SERVICE"),
        ("redis+sentinel://one,,two/main", "HOST:PORT"),
        ("redis+sentinel://:5000/main", "HOST:PORT is expected, found ':5000'"),
        ("redis+sentinel://one/main/first", "number of a database"),
        ("redis+sentinel://one:port/main", "port"),
        ("redis://one/0", ""),
        ("rediss+sentinel://one/main/0", ""),
        ("unix:///run/redis.sock", ""),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_form_that_is_expected(url: str, words: str) -> None:
    found = problem_of(url)
    assert words.lower() in found.lower()
    assert bool(found) == bool(words)
    assert bool(check(Config(redis=RedisConfig(url=url)))) == bool(words)


def test_what_does_not_fit_the_address_is_refused() -> None:
    told = check(Config(redis=RedisConfig(ca_file="/ca.pem")))
    assert told == ["redis.ca_file: redis.url must begin with rediss for TLS"]
    told = check(Config(redis=RedisConfig(url="rediss://one", cert_file="/c.pem")))
    assert told == ["redis.cert_file and redis.key_file belong together"]
    told = check(Config(redis=RedisConfig(url="redis+sentinel://one/main", cluster=True)))
    assert told == ["redis.cluster: a cluster has no sentinels; name one of its nodes in redis.url"]
    assert is_tls("rediss+sentinel://one/main")
