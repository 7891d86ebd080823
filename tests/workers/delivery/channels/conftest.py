"""Each chat channel in turn, before its own server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.chats import MEDIA, Medium


@pytest.fixture(params=sorted(MEDIA))
def medium(request: pytest.FixtureRequest) -> Medium:
    return MEDIA[request.param]


@pytest.fixture
async def server(medium: Medium) -> AsyncIterator[Any]:
    async with medium.service() as server:
        yield server
        server.release()


@pytest.fixture
async def channel(medium: Medium, server: Any) -> AsyncIterator[Any]:
    channel = medium.open(server)
    yield channel
    await channel.close()
