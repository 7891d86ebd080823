"""Count the kills of the crash tests, and say at the end how many hit a turn that was unfinished."""

import asyncio
from typing import Any

import pytest

from tests.fleet.crashing import Told, undisturbed_run
from tests.support.servers import Server

KILL = "kill_in_flight"


@pytest.fixture
def note_kill(record_property: Any) -> Any:
    """Note that a process was lost; says whether the turn was unfinished then."""

    def note(*, in_flight: bool) -> None:
        record_property(KILL, in_flight)

    return note


@pytest.fixture(scope="session")
def undisturbed(redis_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What everybody gets when nothing happens."""
    return asyncio.run(undisturbed_run(redis_server, tmp_path_factory.mktemp("undisturbed")))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the count; the properties of tests come back from other test processes with their reports."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    noted = [value for report in reports for name, value in getattr(report, "user_properties", []) if name == KILL]
    if noted:
        terminalreporter.write_line(f"processes lost at failpoints: {len(noted)}, in flight: {sum(noted)}")
