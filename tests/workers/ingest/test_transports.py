"""What may stand between an upstream and us: proxies that pack, cut and reset, that need a login or a CA of their own."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pipeline.events import TurnFailed
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from tests.support.certificates import CA, OTHER_CA, server_tls
from tests.support.proxies import Proxy
from tests.support.upstream import Answerer, Upstream, error, in_bytes, packed, raw, text
from tests.workers.ingest.rig import Rig, config_for, text_of
from workers.config import UpstreamConfig
from workers.ingest.failures import Phase, SourceError
from workers.ingest.requests import RequestError, build, build_cancel
from workers.ingest.sources.http_stream import open_session, open_source, tell
from workers.ingest.sources.unpacking import PIECE_BYTES, Unpacker
from workers.runtime.clock import SystemClock

WORDS = "Flüsse 🌊 run\u2028to the sea."
LOGIN = "someone:correct horse"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as client:
        yield client


def configured(upstream: Upstream, **settings: Any) -> UpstreamConfig:
    return UpstreamConfig(**{"base_url": upstream.base_url, "read_timeout_ms": 10_000, **settings})


async def body_of(session: aiohttp.ClientSession, config: UpstreamConfig) -> bytes:
    """The whole body of an answer, as it is read."""
    request = build(config, '{"input":"hi"}', {"PROXY_LOGIN": LOGIN})
    source = await open_source(session, request, config, SystemClock())
    try:
        body = b""
        while chunk := await source.read():
            body += chunk
        return body
    finally:
        source.close()


async def failure_of(session: aiohttp.ClientSession, config: UpstreamConfig) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await body_of(session, config)
    return caught.value


# -- packed, and cut oddly


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw deflate"])
async def test_a_packed_body_is_read_as_it_comes(session: aiohttp.ClientSession, encoding: str) -> None:
    async with Upstream(
        text(WORDS), packed(text(WORDS), encoding), in_bytes(packed(text(WORDS), encoding))
    ) as upstream:
        plain, *others = [await body_of(session, configured(upstream)) for _ in range(3)]
        assert others == [plain, plain]


async def test_what_was_packed_is_read_before_the_rest_is_there(session: aiohttp.ClientSession) -> None:
    async with Upstream(packed(raw(b"data: 1\n\n", b"data: 2\n\n"), "gzip")) as upstream:
        upstream.pause_before(1)
        config = configured(upstream)
        source = await open_source(session, build(config, "{}", {}), config, SystemClock())
        assert await source.read() == b"data: 1\n\n"
        upstream.release()
        assert await source.read() == b"data: 2\n\n"
        assert await source.read() == b""
        source.close()


def labelled(answerer: Answerer, encoding: str) -> Answerer:
    """An answer under the name of an encoding that it does not have."""

    def answer(received: Any) -> Any:
        made = answerer(received)
        return type(made)(
            status=made.status, chunks=made.chunks, headers={**made.headers, "Content-Encoding": encoding}
        )

    return answer


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (labelled(text(WORDS), "br"), "upstream_bad_response", "is encoded as br"),
        (labelled(text(WORDS), "own"), "upstream_bad_response", "is encoded as own"),
        (labelled(text(WORDS), "gzip"), "upstream_bad_response", "cannot be unpacked"),
        (labelled(error(429, "x", "Slow down."), "br"), "upstream_rate_limited", ""),
        (packed(error(429, "x", "Slow down."), "gzip"), "upstream_rate_limited", "Slow down."),
    ],
)
async def test_what_cannot_be_unpacked_is_told_by_name(
    session: aiohttp.ClientSession, answer: Answerer, code: str, words: str
) -> None:
    async with Upstream(answer) as upstream:
        failed = await failure_of(session, configured(upstream))
        assert failed.error.code == code
        assert words in failed.error.message


async def test_a_packed_body_without_its_end_was_cut(session: aiohttp.ClientSession) -> None:
    whole = packed(text(WORDS), "gzip")

    def without_end(received: Any) -> Any:
        made = whole(received)
        return type(made)(chunks=made.chunks[:-1], headers=made.headers)

    async with Upstream(without_end) as upstream:
        failed = await failure_of(session, configured(upstream))
        assert (failed.error.code, failed.phase) == ("upstream_truncated", Phase.BODY)


def unpacked(unpacker: Unpacker, data: bytes) -> Iterator[bytes]:
    piece = unpacker.take(data)
    while piece:
        yield piece
        piece = unpacker.more()


@pytest.mark.parametrize("wbits", [16 + zlib.MAX_WBITS, zlib.MAX_WBITS])
def test_a_small_body_that_unpacks_to_a_huge_one_comes_in_pieces(wbits: int) -> None:
    packer = zlib.compressobj(wbits=wbits)
    small = packer.compress(bytes(9 * PIECE_BYTES + 5)) + packer.flush()
    unpacker = Unpacker("gzip" if wbits > zlib.MAX_WBITS else "deflate")
    pieces = list(unpacked(unpacker, small))
    assert sum(map(len, pieces)) == 9 * PIECE_BYTES + 5
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert unpacker.is_whole


def test_members_follow_each_other_and_what_is_behind_them_is_nothing() -> None:
    def member(data: bytes) -> bytes:
        packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush()

    unpacker = Unpacker("gzip")
    assert b"".join(unpacked(unpacker, member(b"one ") + member(b"two") + b"\0" * 9)) == b"one two"
    assert unpacker.is_whole


GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BODIES = [
    ("chat", (GOLDEN / "chat" / "text-two-calls.sse").read_bytes().replace(b"\n", b"\r\n")),
    ("messages", (GOLDEN / "messages" / "thinking-calls.sse").read_bytes().replace(b"\n", b"\r")),
    ("gemini", (GOLDEN / "gemini" / "thought-call-text.sse").read_bytes()),
]


@pytest.mark.parametrize(("wire", "data"), BODIES, ids=[wire for wire, _ in BODIES])
async def test_a_body_in_single_bytes_is_the_body(session: aiohttp.ClientSession, wire: str, data: bytes) -> None:
    """A byte is sent when the one before it has been read: within characters, and between CR and LF."""
    async with Upstream(in_bytes(raw(data))) as upstream:
        config = configured(upstream)
        upstream.pause_before(1)
        source = await open_source(session, build(config, "{}", {}), config, SystemClock())
        adapter, whole = WIRES[wire](stamp=Stamp(at=1)), WIRES[wire](stamp=Stamp(at=1))
        events = []
        for sent in range(2, len(data) + 2):
            chunk = await source.read()
            assert len(chunk) == 1
            events += adapter.feed(chunk)
            upstream.release(sent)
            await upstream.reached(min(sent, len(data)))
        source.close()
        assert events + adapter.close() == whole.feed(data) + whole.close()


# -- through a proxy


async def test_a_proxy_gets_the_whole_url_and_its_login_which_the_upstream_does_not(
    session: aiohttp.ClientSession,
) -> None:
    async with Upstream(text(WORDS)) as upstream, Proxy() as proxy:
        config = configured(upstream, proxy=proxy.url, proxy_auth_env="PROXY_LOGIN")
        assert b"response.completed" in await body_of(session, config)
        (head,) = proxy.heads
        assert head.startswith(f"POST {upstream.base_url}/responses HTTP/1.1")
        assert "Proxy-Authorization: Basic c29tZW9uZTpjb3JyZWN0IGhvcnNl" in head
        assert "Proxy-Authorization" not in upstream.received[0].headers


async def test_a_proxy_opens_a_tunnel_to_an_upstream_that_speaks_tls(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS), tls=server_tls()) as upstream, Proxy() as proxy:
        config = configured(upstream, proxy=proxy.url, proxy_auth_env="PROXY_LOGIN", ca_file=CA)
        assert b"response.completed" in await body_of(session, config)
        (head,) = proxy.heads
        assert head.startswith(f"CONNECT 127.0.0.1:{upstream.port} HTTP/1.1")
        assert "Proxy-Authorization: Basic " in head
        assert "Proxy-Authorization" not in upstream.received[0].headers
        await tell(session, build_cancel(config, "r1", {"PROXY_LOGIN": LOGIN}), timeout_ms=5_000)
        assert [received.path for received in upstream.received] == ["/v1/responses", "/v1/responses/r1/cancel"]


async def test_what_a_proxy_refuses_has_not_been_asked(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS), tls=server_tls()) as upstream, Proxy(refuse=407) as proxy:
        failed = await failure_of(session, configured(upstream, proxy=proxy.url, ca_file=CA))
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
        assert "its proxy answered 407" in failed.error.message
        assert upstream.received == []
    async with Upstream(text(WORDS)) as upstream, Proxy(refuse=407) as proxy:
        failed = await failure_of(session, configured(upstream, proxy=proxy.url))
        assert failed.error.code == "upstream_unauthorized"


async def test_a_proxy_that_answers_nothing_has_opened_nothing(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS), tls=server_tls()) as upstream, Proxy(is_dumb=True) as proxy:
        config = configured(upstream, proxy=proxy.url, ca_file=CA, connect_timeout_ms=200)
        failed = await failure_of(session, config)
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
        assert failed.error.message == "no connection to the upstream within 200 ms"


async def test_an_upstream_that_does_not_shake_hands_has_been_asked_nothing(session: aiohttp.ClientSession) -> None:
    async with Proxy(is_dumb=True) as dumb:
        config = UpstreamConfig(base_url=dumb.url.replace("http:", "https:"), connect_timeout_ms=200)
        failed = await failure_of(session, config)
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)


async def test_a_proxy_that_is_not_there_is_named_without_its_address(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS)) as upstream, Proxy() as proxy:
        await proxy.close()
        failed = await failure_of(session, configured(upstream, proxy=proxy.url))
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
        assert failed.error.message == "no connection to the upstream's proxy: Connection refused"


def test_a_login_that_is_not_there_is_named_by_its_variable() -> None:
    config = UpstreamConfig(base_url="http://x", proxy="http://p:1", proxy_auth_env="PROXY_LOGIN")
    for environ in ({}, {"PROXY_LOGIN": "no colon"}):
        with pytest.raises(RequestError, match="PROXY_LOGIN holds no login: USER:PASSWORD is expected"):
            build(config, "{}", environ)
    assert "horse" not in repr(build(config, "{}", {"PROXY_LOGIN": LOGIN}))


async def test_a_login_is_in_no_record_and_in_no_log(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXY_LOGIN", LOGIN)
    async with Upstream(text(WORDS)) as upstream, Proxy() as proxy:
        config = config_for(
            redis_url, upstream.base_url, proxy=proxy.url, proxy_auth_env="PROXY_LOGIN", connect_retries=0
        )
        async with Rig(config) as rig:
            first = await rig.submit()
            rig.start()
            await rig.ended(first)
            assert text_of(await rig.events(first)) == WORDS
            await proxy.close()
            last = await rig.ended(await rig.submit(number=2))
            assert isinstance(last, TurnFailed)
            assert last.error.code == "upstream_connect_failed"
            kept = b"".join((await rig.saved()).values())
    told = capsys.readouterr()
    for secret in ("correct horse", "c29tZW9uZTpjb3JyZWN0IGhvcnNl"):
        assert secret.encode() not in kept
        assert secret not in told.out + told.err


# -- by a CA of its own


async def test_an_upstream_is_trusted_by_the_ca_that_is_configured_for_it(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS), tls=server_tls()) as upstream:
        assert b"response.completed" in await body_of(session, configured(upstream, ca_file=CA))


@pytest.mark.parametrize(
    ("shown", "settings", "why"),
    [
        ("loopback", {}, "unable to get local issuer certificate"),
        ("loopback", {"ca_file": OTHER_CA}, "unable to get local issuer certificate"),
        ("elsewhere", {"ca_file": CA}, "it is another host's"),
    ],
    ids=["the system's", "another", "another host"],
)
async def test_an_upstream_that_is_not_trusted_hears_nothing(
    session: aiohttp.ClientSession, shown: str, settings: dict[str, str], why: str
) -> None:
    async with Upstream(text(WORDS), tls=server_tls(shown)) as upstream:
        failed = await failure_of(session, configured(upstream, **settings))
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
        assert failed.error.message == f"no connection to the upstream: its certificate is not trusted ({why})"
        assert upstream.received == []


async def test_tls_is_not_spoken_to_one_that_does_not(session: aiohttp.ClientSession) -> None:
    async with Upstream(text(WORDS)) as upstream:
        config = configured(upstream, base_url=upstream.base_url.replace("http:", "https:"))
        failed = await failure_of(session, config)
        assert (failed.error.code, failed.phase) == ("upstream_connect_failed", Phase.CONNECT)
        assert "does not speak TLS" in failed.error.message


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"nothing", "no certificate in PEM")])
async def test_a_ca_that_cannot_be_read_is_told_by_name(
    session: aiohttp.ClientSession, tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    async with Upstream(text(WORDS), tls=server_tls()) as upstream:
        failed = await failure_of(session, configured(upstream, ca_file=str(file)))
        assert (failed.error.code, failed.phase) == ("upstream_not_configured", Phase.STATUS)
        assert why in failed.error.message
        assert upstream.received == []


async def test_what_is_no_http_is_told_by_name(session: aiohttp.ClientSession) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        failed = await failure_of(session, UpstreamConfig(base_url=f"http://127.0.0.1:{port}"))
    finally:
        server.close()
        await server.wait_closed()
    assert (failed.error.code, failed.phase) == ("upstream_bad_response", Phase.STATUS)
