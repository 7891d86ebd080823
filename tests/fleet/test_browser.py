"""The gateway's page in a headless browser, over a fleet of real processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scripts.responses_stream import FunctionCall, Summary, Text, cut
from tests.support.browser import Browser, is_installed
from tests.support.fleet import Fleet, Worker
from tests.support.upstream import Upstream, error, items, text
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not is_installed(), reason="chromium and chromedriver are not installed"),
]

WORDS = (
    "A river begins as rain that found no reason to stay. It gathers what the slope gives it, takes the shortest way it "
    "can see, and corrects itself at every stone.\n\nBy the time it is wide enough to have a name it has forgotten the "
    "hill, and carries ships. — «Größe», 水, and a tail ✓"
)


@asynccontextmanager
async def page(redis_url: str, folder: Path, upstream: Upstream) -> AsyncIterator[tuple[Fleet, Worker, Browser]]:
    """Run ingest, fold and gateway as processes, and open the page."""
    async with Fleet(redis_url, folder, upstreams={"sample": {"base_url": upstream.base_url}}) as fleet:
        for role in ("ingest", "fold"):
            await fleet.start(role)
        gateway = await fleet.start("gateway")
        async with Browser() as browser:
            await browser.open(f"http://127.0.0.1:{gateway.port}/")
            yield fleet, gateway, browser


async def shows(browser: Browser, selector: str, wanted: str) -> None:
    """Wait until an element's text holds this."""
    found = ""

    async def there() -> bool:
        nonlocal found
        found = await browser.text(selector)
        return wanted in found

    try:
        await wait_until(there, f"{selector} shows {wanted!r}", timeout_s=30, every_s=0.05)
    except AssertionError:
        pytest.fail(f"{selector} shows {found!r}, not {wanted!r}; the state is {await browser.text('#state')}")


async def test_text_streams_and_is_whole_although_the_gateway_is_killed(redis_url: str, tmp_path: Path) -> None:
    deltas = 24
    async with (
        Upstream(text(WORDS, pieces=deltas)) as upstream,
        page(redis_url, tmp_path, upstream) as (fleet, gateway, browser),
    ):
        upstream.pause_before(4 + deltas // 3)
        await browser.fill("#model", "sample-1")
        await browser.click("#start")
        await shows(browser, "#output", "".join(cut(WORDS, deltas)[: deltas // 3]))
        await shows(browser, "#state", "live")
        await browser.picture(tmp_path / "live.png")
        await gateway.kill()
        await shows(browser, "#state", "reconnecting")
        upstream.release(4 + 2 * deltas // 3)
        await upstream.reached(4 + 2 * deltas // 3)
        await browser.picture(tmp_path / "reconnecting.png")
        again = await fleet.start("gateway", environ={"FOLDLINE_GATEWAY_PORT": str(gateway.port)})
        await shows(browser, "#output", "".join(cut(WORDS, deltas)[: 2 * deltas // 3]))
        await shows(browser, "#state", "live")
        await again.kill()
        upstream.release()
        turn = await browser.text("#ident")
        await fleet.ended(turn)
        await fleet.start("gateway", environ={"FOLDLINE_GATEWAY_PORT": str(gateway.port)})
        await shows(browser, "#state", "completed")
        assert await browser.text("#output") == WORDS
        assert (await browser.text("#reconnects")).endswith("reconnects")
        await browser.picture(tmp_path / "completed.png")
        await browser.reload()
        await shows(browser, "#state", "completed")
        assert await browser.text("#output") == WORDS, "the address leads back to the same turn"
        assert len(upstream.received) == 1


async def test_reasoning_tools_failures_and_cancels_are_shown(redis_url: str, tmp_path: Path) -> None:
    call = FunctionCall(name="measure_depth", pieces=('{"river":', '"Weser"}'))
    output = items(Summary(pieces=("The asker wants ", "a depth.")), Text(pieces=("Let me ", "look.")), call)
    refused = error(400, "their_code", "the upstream says no")
    async with (
        Upstream(output, refused, text(WORDS)) as upstream,
        page(redis_url, tmp_path, upstream) as (_, _gateway, browser),
    ):
        await browser.fill("#model", "sample-1")
        await browser.click("#start")
        await shows(browser, "#state", "completed")
        assert await browser.text(".reasoning") == "The asker wants a depth."
        assert await browser.text(".text") == "Let me look."
        assert await browser.text(".tool") == '{"river":"Weser"}'
        await browser.picture(tmp_path / "tools.png")
        await browser.click("#start")
        await shows(browser, "#state", "failed")
        await shows(browser, "#note", "the upstream says no")
        await browser.picture(tmp_path / "failed.png")
        upstream.pause_before(6)
        await browser.click("#start")
        await shows(browser, "#output", cut(WORDS, 4)[0])
        await browser.click("#cancel")
        await shows(browser, "#state", "cancelled")
        await browser.open(f"http://127.0.0.1:{_gateway.port}/#0-0123456789abcdef01234567")
        await browser.reload()
        await shows(browser, "#state", "not readable")
        await shows(browser, "#note", "was not found")
