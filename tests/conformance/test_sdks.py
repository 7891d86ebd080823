"""The official SDKs read our golden streams as we do: the upstream's own, and the public ones that become of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.turn import decode
from scripts import sdk
from tests.pipeline.normalize.test_contract import mangled, misshapen

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
OWN = [path for wire in sdk.READERS for path in sorted(GOLDEN.glob(f"{wire}/*.sse"))]
UNREAD = {"habits", "whole-answer", "failed", "mended", "rounds"}  # the SDKs raise, or join what are two messages
NAMES = [f"{path.parent.name}/{path.stem}" for path in OWN]


@pytest.mark.parametrize(
    "path", [path for path in OWN if path.stem not in UNREAD], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_an_upstreams_own_sdk_reads_what_we_read(path: Path) -> None:
    data = path.read_bytes()
    theirs = sdk.READERS[path.parent.name](data)
    own = sdk.ours(path.parent.name, decode([data], path.parent.name))
    assert own.stop == theirs.stop
    assert sdk.differences(theirs, own) == []


@pytest.mark.parametrize("path", OWN, ids=NAMES)
def test_the_openai_sdk_reads_the_public_stream(path: Path) -> None:
    data = path.read_bytes()
    assert list(sdk.public_faults(decode([data], path.parent.name))) == []
    assert list(sdk.public_faults(decode([data[at : at + 7] for at in range(0, len(data), 7)], path.parent.name))) == []


def test_a_difference_is_found() -> None:
    data = (GOLDEN / "chat" / "text-two-calls.sse").read_bytes()
    other = (
        data.replace(b"Bergen", b"Tromso")
        .replace(b"first", b"last ")
        .replace(b'"total_tokens": 55', b'"total_tokens": 56')
    )
    how, found = sdk.agreement("a file", "chat", data, decode([other], "chat"))
    assert how == sdk.AGREES
    assert [one.partition(":")[0] for one in found] == ["text", "calls", "usage"]


def test_a_listed_difference_that_is_none_is_found() -> None:
    data = (GOLDEN / "chat" / "text-two-calls.sse").read_bytes()
    how, found = sdk.agreement("minimal/chat/tool-no-id.sse", "chat", data, decode([data], "chat"))
    assert (how, len(found)) == (sdk.DIFFERS, 1)


def test_a_public_stream_that_breaks_is_found() -> None:
    decoded = decode([(GOLDEN / "chat" / "text-two-calls.sse").read_bytes()], "chat")
    gap = [frame for frame in decoded.frames if frame.event != "response.output_item.added"]
    assert list(sdk.public_faults(type(decoded)(decoded.events, gap, decoded.blocks, decoded.payload)))
    named = [frame for frame in decoded.frames if json.loads(frame.data).get("delta") != "first. 🚢 "]
    assert list(sdk.public_faults(type(decoded)(decoded.events, named, decoded.blocks, decoded.payload)))


def hold(data: Any) -> None:
    """Let the SDK and our own decoder read what becomes of a broken stream."""
    wire = data.draw(st.sampled_from(sorted(sdk.READERS)))
    decoded = decode([data.draw(st.one_of(mangled(wire), misshapen(wire)))], wire)
    assert list(sdk.public_faults(decoded)) == []
    assert [frame.number for frame in decoded.frames] == list(range(len(decoded.frames)))


@given(st.data())
@settings(max_examples=60)
def test_whatever_an_upstream_breaks_the_public_stream_stays_whole(data: Any) -> None:
    hold(data)


@pytest.mark.long
@pytest.mark.timeout(900)
@given(st.data())
@settings(max_examples=1000)
def test_whatever_an_upstream_breaks_the_public_stream_stays_whole_long(data: Any) -> None:
    hold(data)
