"""A headless Chromium, driven over the WebDriver protocol: plain HTTP to the system's chromedriver."""

import asyncio
import base64
import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.support.servers import free_port
from tests.support.waiting import wait_until

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=900,1000",
)


def is_installed() -> bool:
    """Whether browser and driver are on the path."""
    return shutil.which("chromedriver") is not None and _chromium() is not None


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One browser with one page; leaving the context ends both processes."""

    def __init__(self) -> None:
        self._port = free_port()
        self._profile = Path(tempfile.mkdtemp(prefix="foldline-browser-"))
        self._driver: subprocess.Popen[bytes] | None = None
        self._http: aiohttp.ClientSession | None = None
        self._session = ""

    async def __aenter__(self) -> Self:
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={self._port}", "--log-level=SEVERE"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._http = aiohttp.ClientSession(f"http://127.0.0.1:{self._port}")
        await wait_until(self._answers, "the driver answers", timeout_s=20)
        options = {"args": [*FLAGS, f"--user-data-dir={self._profile}"], "binary": _chromium()}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self._session = (await self._ask("POST", "/session", wanted))["sessionId"]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._driver is not None
        assert self._http is not None
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            await asyncio.wait_for(self._ask("DELETE", f"/session/{self._session}"), 10)
        await self._http.close()
        self._driver.terminate()
        self._driver.wait(timeout=10)
        shutil.rmtree(self._profile, ignore_errors=True)

    async def open(self, url: str) -> None:
        """Go to a page and wait until it is loaded."""
        await self._of_page("/url", {"url": url})

    async def reload(self) -> None:
        """Load the page again."""
        await self._of_page("/refresh", {})

    async def run(self, script: str, *args: Any) -> Any:
        """Run a script in the page and return what it returns."""
        return await self._of_page("/execute/sync", {"script": script, "args": list(args)})

    async def text(self, selector: str) -> str:
        """Return the text that an element holds."""
        return str(await self.run("return document.querySelector(arguments[0]).textContent", selector))

    async def fill(self, selector: str, value: str) -> None:
        """Put a value into a field."""
        await self.run("document.querySelector(arguments[0]).value = arguments[1]", selector, value)

    async def click(self, selector: str) -> None:
        """Press a button."""
        await self.run("document.querySelector(arguments[0]).click()", selector)

    async def picture(self, path: Path) -> None:
        """Save what the page looks like."""
        assert self._http is not None
        path.write_bytes(base64.b64decode(await self._ask("GET", f"/session/{self._session}/screenshot")))

    async def _of_page(self, path: str, body: dict[str, Any]) -> Any:
        return await self._ask("POST", f"/session/{self._session}{path}", body)

    async def _answers(self) -> bool:
        try:
            return bool((await self._ask("GET", "/status"))["ready"])
        except aiohttp.ClientError:
            return False

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        assert self._http is not None
        async with self._http.request(method, path, json=body) as answer:
            value = (await answer.json())["value"]
            assert answer.status == 200, value
            return value
