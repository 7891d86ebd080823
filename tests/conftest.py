"""Fixtures of all tests: one real server for each test process, emptied before every test that asks for it."""

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.servers import Server

settings.register_profile("foldline", deadline=None)  # a busy machine is no fault
settings.load_profile("foldline")


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Under CI a test that skips itself fails: the programs that it wants are installed there, or `.ci/run` is wrong."""
    report: Any = yield
    if os.environ.get("FOLDLINE_CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under FOLDLINE_CI: {report.longrepr}"
    return report
