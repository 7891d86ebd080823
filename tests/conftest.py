"""Fixtures of all tests: one real server for each test process, emptied before every test that asks for it."""

from collections.abc import Iterator

import pytest

from tests.support.servers import Server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """The server of this test process; do not kill it, start your own for that."""
    with Server() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Server) -> str:
    """The address of an empty server."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url
