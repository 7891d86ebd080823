import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.support.upstream import HEADERS, Ending, Upstream, error, html, json_body, raw, reset, text
from tests.support.waiting import wait_until
from workers.config import UpstreamConfig
from workers.ingest.failures import Phase, SourceError
from workers.ingest.requests import UpstreamRequest, build
from workers.ingest.sources.http_stream import HttpSource, open_session, open_source
from workers.runtime.clock import SystemClock


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as client:
        yield client


def configured(base_url: str, *, read_timeout_ms: int = 5_000) -> UpstreamConfig:
    return UpstreamConfig(base_url=base_url, read_timeout_ms=read_timeout_ms, connect_timeout_ms=2_000)


async def opened(session: aiohttp.ClientSession, upstream: UpstreamConfig) -> HttpSource:
    request: UpstreamRequest = build(upstream, '{"input":"hi"}', {})
    return await open_source(session, request, upstream, SystemClock())


async def failure_of(session: aiohttp.ClientSession, upstream: UpstreamConfig) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await read_all(await opened(session, upstream))
    return caught.value


async def read_all(source: HttpSource) -> bytes:
    body = b""
    try:
        while chunk := await source.read():
            body += chunk
    finally:
        source.close()
    return body


async def test_an_answer_is_read_to_its_end(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(raw(b"data: 1\n\n", b"data: 2\n\n"))
    assert await read_all(await opened(session, configured(upstream.base_url))) == b"data: 1\n\ndata: 2\n\n"


async def test_silence_is_a_stall(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(raw(b"data: 1\n\n", ending="stall"))
    failed = await failure_of(session, configured(upstream.base_url, read_timeout_ms=50))
    assert (failed.error.code, failed.phase) == ("upstream_stalled", Phase.BODY)
    await upstream.left()


class Sleeper(SystemClock):
    """A clock that jumps ahead once, as it does for a process that was frozen."""

    def __init__(self, asleep_ms: int) -> None:
        self.asleep_ms = asleep_ms
        self.readings = 0

    def boottime_ms(self) -> int:
        self.readings += 1
        return super().boottime_ms() + (self.asleep_ms if self.readings > 1 else 0)


async def test_a_time_out_that_this_process_slept_through_is_not_the_upstreams_stall(
    upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    upstream.then(raw(b"data: 1\n\n", b"data: 2\n\n"))
    upstream.pause_before(1)
    config = configured(upstream.base_url, read_timeout_ms=100)
    clock = Sleeper(60_000)
    source = await open_source(session, build(config, '{"input":"hi"}', {}), config, clock)
    assert await source.read() == b"data: 1\n\n"
    clock.readings = 0
    reading = asyncio.ensure_future(source.read())
    await wait_until(lambda: clock.readings >= 3, "the wait after the sleep")
    upstream.release()
    assert await reading == b"data: 2\n\n"


async def test_no_answer_at_all_is_a_stall(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(text("x"))
    upstream.pause_before(HEADERS)
    config = UpstreamConfig(base_url=upstream.base_url, read_timeout_ms=50, connect_timeout_ms=50)
    failed = await failure_of(session, config)
    assert (failed.error.code, failed.phase) == ("upstream_stalled", Phase.ANSWER)


async def test_the_read_time_out_does_not_run_while_nobody_reads(
    upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    upstream.then(raw(b"data: 1\n\n", b"data: 2\n\n"))
    upstream.pause_before(1)
    source = await opened(session, configured(upstream.base_url, read_timeout_ms=100))
    assert await source.read() == b"data: 1\n\n"
    clock = asyncio.get_running_loop()
    silent_until = clock.time() + 0.3
    await wait_until(lambda: clock.time() > silent_until, "three read time-outs without a read")
    upstream.release()
    assert await source.read() == b"data: 2\n\n"
    source.close()


async def test_a_cut_body_is_truncated(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(raw(b"data: 1\n\n", ending="cut"), raw(b"data: 1\n\n", ending="reset"))
    for _ in range(2):
        failed = await failure_of(session, configured(upstream.base_url))
        assert (failed.error.code, failed.phase) == ("upstream_truncated", Phase.BODY)


@pytest.mark.parametrize("ending", ["cut", "reset"])
async def test_what_came_before_the_connection_broke_is_read_although_nobody_was_reading(
    upstream: Upstream, session: aiohttp.ClientSession, ending: Ending
) -> None:
    upstream.then(raw(b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n", ending=ending))
    upstream.pause_before(1)
    source = await opened(session, configured(upstream.base_url))
    assert await source.read() == b"data: 1\n\n"
    upstream.release()
    await wait_until(lambda: source._response.content.exception() is not None, "the connection to break")
    assert await source.read() == b"data: 2\n\ndata: 3\n\n"
    with pytest.raises(SourceError, match="closed the connection before its answer ended"):
        await source.read()
    source.close()


async def test_a_reset_before_the_answer_may_have_been_processed(
    upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    upstream.then(reset())
    failed = await failure_of(session, configured(upstream.base_url))
    assert (failed.error.code, failed.phase) == ("upstream_truncated", Phase.ANSWER)


async def test_a_refused_connection_cannot_have_been_processed(
    upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    await upstream.close()
    failed = await failure_of(session, configured(upstream.base_url))
    assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
    assert str(upstream.port) not in failed.error.message


async def test_redirects_are_not_followed(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(json_body({}, status=307, headers={"Location": upstream.base_url + "/responses"}))
    failed = await failure_of(session, configured(upstream.base_url))
    assert failed.error.code == "upstream_bad_response"
    assert len(upstream.received) == 1


async def test_an_error_answer_carries_status_and_wait(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(error(429, "rate_limit_exceeded", "Slow down.", retry_after="3"))
    failed = await failure_of(session, configured(upstream.base_url))
    assert (failed.error.code, failed.status, failed.retry_after_ms) == ("upstream_rate_limited", 429, 3_000)
    assert failed.error.message == "Slow down."


@pytest.mark.parametrize("before", [b"", b"\n  ", b"\xef\xbb\xbf"])
async def test_a_page_with_status_200_is_no_answer_and_told_in_its_words(
    upstream: Upstream, session: aiohttp.ClientSession, before: bytes
) -> None:
    upstream.then(raw(before + b"<!doctype html><html>", b"<title>Come back later</title></html>"))
    failed = await failure_of(session, configured(upstream.base_url))
    assert failed.error.code == "upstream_bad_response"
    assert failed.error.message == "Come back later"


async def test_a_page_of_a_proxy_is_an_error_with_its_title(upstream: Upstream, session: aiohttp.ClientSession) -> None:
    upstream.then(html(502, "Bad gateway of the test"))
    failed = await failure_of(session, configured(upstream.base_url))
    assert failed.error.code == "upstream_server_error"
    assert "Bad gateway of the test" in failed.error.message
