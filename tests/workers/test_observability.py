import asyncio
import json
from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import REGISTRY

from workers.observability import logs, metrics
from workers.observability.health import HealthServer


async def get(port: int, line: str) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line.encode())
    await writer.drain()
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = text.partition("\r\n\r\n")
    return head.split("\r\n")[0], body


async def test_the_operations_port_answers_health_readiness_and_metrics() -> None:
    ready = False
    server = HealthServer("127.0.0.1", 0, lambda: ready)
    await server.start()
    try:
        metrics.FOLD_EVENTS.inc()
        assert (await get(server.port, "GET /healthz HTTP/1.1\r\n\r\n"))[1] == "ok\n"
        assert "503" in (await get(server.port, "GET /readyz HTTP/1.1\r\n\r\n"))[0]
        ready = True
        assert "200" in (await get(server.port, "GET /readyz HTTP/1.1\r\n\r\n"))[0]
        assert "foldline_fold_events_total" in (await get(server.port, "GET /metrics?x=1 HTTP/1.1\r\n\r\n"))[1]
        assert "404" in (await get(server.port, "GET /secret HTTP/1.1\r\n\r\n"))[0]
        assert "405" in (await get(server.port, "POST /healthz HTTP/1.1\r\n\r\n"))[0]
        assert (await get(server.port, "G" * 10_000))[0] == ""
    finally:
        await server.stop()
        await server.stop()


def test_every_instrument_bears_the_projects_prefix() -> None:
    names = [metric.name for metric in REGISTRY.collect() if not metric.name.startswith(("python_", "process_"))]
    assert names
    assert all(name.startswith("foldline_") for name in names)


@pytest.fixture
def plain_logs() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.usefixtures("plain_logs")
def test_a_log_line_is_one_json_object_with_what_was_bound(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", role="fold")
    logs.bind(turn="7-abc", partition=7).info("committed", frames=3)
    logs.bind().debug("not shown")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    line = json.loads(lines[0])
    assert (line["service"], line["role"], line["turn"], line["partition"], line["frames"]) == (
        "foldline",
        "fold",
        "7-abc",
        7,
        3,
    )
