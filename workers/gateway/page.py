"""The page that shows one turn live: a single file, served as it is, with a policy that lets it load nothing else."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response


@cache
def page_text() -> str:
    """Return the page."""
    return files("workers.gateway").joinpath("page.html").read_text(encoding="utf-8")


@cache
def content_policy() -> str:
    """Return the content security policy: this page's own script and style by their hashes, and connections to its own gateway."""
    script = _hash_between("<script>", "</script>")
    style = _hash_between("<style>", "</style>")
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _hash_between(opening: str, closing: str) -> str:
    inner = page_text().partition(opening)[2].partition(closing)[0]
    return "sha256-" + base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()


async def serve_page(_request: Request) -> Response:
    """Answer `GET /`."""
    return HTMLResponse(
        page_text(),
        headers={
            "Content-Security-Policy": content_policy(),
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        },
    )
