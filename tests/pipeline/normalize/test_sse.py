"""The splitter against the WHATWG rules: the format cases of the web platform's tests in our own words, at every cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.limits import Limits
from pipeline.normalize.sse import SseEvent, SseSplitter

BOM = b"\xef\xbb\xbf"
LONG = b"x" * 2048


def split(*pieces: bytes, limits: Limits | None = None) -> list[SseEvent]:
    splitter = SseSplitter(limits)
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events + splitter.close()


def texts(*pieces: bytes) -> list[str]:
    return [event.text for event in split(*pieces)]


def state(*pieces: bytes) -> tuple[list[SseEvent], str, int | None, list[bytes]]:
    """All that a body in these pieces tells: its events, and what stays behind them."""
    splitter = SseSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)] + splitter.close()
    return events, splitter.last_id, splitter.retry_ms, splitter.leftover


def same_at_every_cut(stream: bytes) -> None:
    """In two pieces, in three, and byte by byte, a body tells the same."""
    whole = state(stream)
    assert state(*(stream[i : i + 1] for i in range(len(stream)))) == whole
    for cut in range(len(stream) + 1):
        assert state(stream[:cut], stream[cut:]) == whole
        assert state(stream[:cut], b"", stream[cut : cut + 1], stream[cut + 1 :]) == whole


FORMAT = {
    "bom": (BOM + b"data:1\n\n" + BOM + b"data:2\n\ndata:3\n\n\n", ["1", "3"]),
    "bom twice": (BOM + BOM + b"data:1\n\ndata:2\n\ndata:3\n\n\n", ["2", "3"]),
    "bom after a blank line": (b"\n" + BOM + b"data:1\n\ndata:2\n\n", ["2"]),
    "comments": (
        b"data:1\r:\0\n:\r\ndata:2\n:" + LONG + b"\rdata:3\n:data:fail\r:" + LONG + b"\ndata:4\n\n",
        ["1\n2\n3\n4"],
    ),
    "unfinished event at the end": (b"retry:1000\ndata:test1\n\nid:test\ndata:test2\n", ["test1"]),
    "data": (b"data:\n\ndata\ndata\n\ndata:test\n\n\n", ["", "\n", "test"]),
    "event name": (b"event:test\ndata:x\n\ndata:x\n\n\n", ["x", "x"]),
    "empty event name": (b"event: \ndata:data\n\n\n", ["data"]),
    "field names": (
        b"data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
        ["\0\n 2\n1\n3\n\n4"],
    ),
    "retry": (b"retry:02000\ndata:x\n\n\n", ["x"]),
    "retry that is no number": (b"retry:2000\nretry:1000x\ndata:x\n\n\n", ["x"]),
    "one event in pieces": (b"data: hello\n\n", ["hello"]),
    "retry without a colon": (b"retry\ndata:test\n\n\n", ["test"]),
    "unknown fields": (
        b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n\n",
        ["test\n\ntest"],
    ),
    "leading space": (b"data:\ttest\rdata: \ndata:test\n\n\n", ["\ttest\n\ntest"]),
    "newlines": (b"data:test\r\ndata\ndata:test\r\n\r\n", ["test\n\ntest"]),
    "null character": (b"data:\0\n\n\n\n", ["\0"]),
    "utf-8": ("data:ok…\n\n\n".encode(), ["ok…"]),
    "messages": (
        b"data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\ndata:end\n\n",
        ["msg\nmsg", "", "end"],
    ),
    "every line end": (b"data: cr\r\rdata: lf\n\ndata: crlf\r\n\r\n", ["cr", "lf", "crlf"]),
    "a cr and a crlf": (b"data: one\r\r\n", ["one"]),
    "bare data ended by cr": (b"data\r\r", [""]),
    "only comments": (b": ping\n\n:\n\n: ping\r\n\r\n", []),
    "event without data": (b"event: ping\n\nid: 1\n\nretry: 5\n\n", []),
    "other separators stay": (
        "data:a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\n\n".encode(),
        ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei"],
    ),
    "invalid utf-8": (b"data:a\xffb\xe2\x82\n\ndata:2\n\n", ["a\ufffdb\ufffd", "2"]),
    "colons in data": (b"data: : \n\n", [": "]),
    "nothing": (b"", []),
    "done": (b"data:[DONE]\n\n", ["[DONE]"]),
}


@pytest.mark.parametrize(("stream", "expected"), FORMAT.values(), ids=FORMAT.keys())
def test_a_stream_gives_the_same_events_at_every_cut(stream: bytes, expected: list[str]) -> None:
    assert texts(stream) == expected
    whole = split(stream)
    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == whole
    cuts = range(len(stream) + 1) if len(stream) < 500 else [*range(60), *range(2050, 2130), *range(4160, len(stream))]
    for cut in cuts:
        assert split(stream[:cut], stream[cut:]) == whole
        assert split(stream[:cut], b"", stream[cut : cut + 1], stream[cut + 1 :]) == whole


LINES = st.sampled_from(
    [
        b"data:1",
        b"data: {}",
        b"data",
        b"event: e",
        b"id: 4",
        b"id",
        b":c",
        b"x: y",
        b"",
        "data: é€😀".encode(),
        BOM,
        b"retry:7",
    ]
)


@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=30),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_stream_is_cut_independent(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(bounds)]
    assert split(*pieces) == split(stream)


def test_an_event_has_its_name_or_message() -> None:
    first, second = split(b"event:test\ndata:x\n\ndata:x\n\n")
    assert (first.name, second.name) == ("test", "message")
    assert split(b"event: \ndata:x\n\n")[0].name == "message"
    assert split(b"event: lost\n\ndata:x\n\n")[0].name == "message"


@pytest.mark.parametrize(
    ("stream", "ids"),
    [
        (b"id: 1\ndata:1\n\ndata:2\n\n", ["1", "1"]),
        (b"id: 1\ndata:1\n\nid: 2\ndata:2\n\ndata:3\n\n", ["1", "2", "2"]),
        (b"id: 1\ndata:1\n\nid:\ndata:2\n\ndata:3\n\n", ["1", "", ""]),
        (b"id: \0\0\ndata:1\n\n", [""]),
        (b"id: 123\nid: bad\0id\ndata:1\n\n", ["123"]),
        ("id: …\ndata:1\n\n".encode(), ["…"]),
        (b"id: 1\n\ndata:1\n\n", ["1"]),
    ],
)
def test_an_id_stays_until_it_is_changed(stream: bytes, ids: list[str]) -> None:
    assert [event.id for event in split(stream)] == ids
    same_at_every_cut(stream)


def test_an_unfinished_event_leaves_its_id_behind() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data:test1\n\nid:test\ndata:test2\n")
    splitter.close()
    assert splitter.last_id == ""


@pytest.mark.parametrize(
    ("stream", "retry_ms"),
    [
        (b"retry:02000\ndata:x\n\n", 2000),
        (b"retry:2000\nretry:1000x\ndata:x\n\n", 2000),
        (b"retry\ndata:x\n\n", None),
        (b"retry:-1\n", None),
        ("retry:٣\n".encode(), None),
        (b"retry:" + b"9" * 5000 + b"\n", None),
    ],
)
def test_a_retry_is_digits_only(stream: bytes, retry_ms: int | None) -> None:
    splitter = SseSplitter()
    splitter.feed(stream)
    assert splitter.retry_ms == retry_ms
    same_at_every_cut(stream if len(stream) < 500 else stream[:300] + b"\n")


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: [DONE]", ["[DONE]"]),
        (b"data: [DONE]\n", ["[DONE]"]),
        (b"data:[DONE]\r", ["[DONE]"]),
        (b'data: {"a":1}', ['{"a":1}']),
        (b'data: {"a":1}\nid: x', ['{"a":1}']),
        (b'data: {"a":1', []),
        (b'data: {"a":1}\ndata: {"b', ['{"a":1}']),
        (b'data: {"a":1,\ndata: "b', []),
        (b"data: hello\n", []),
        (b"data:", []),
        (b"event: e\n", []),
        (BOM + b"data: {}", ["{}"]),
    ],
)
def test_a_body_may_end_without_its_last_blank_line(stream: bytes, expected: list[str]) -> None:
    assert texts(stream) == expected
    same_at_every_cut(stream)


def test_json_lines_without_blank_lines_between_them_are_events_of_their_own() -> None:
    stream = b'data: {"a":1}\ndata: {"b":2} \r\ndata: {"c":\ndata: [{}\ndata: ,{}]}\ndata: [DONE]\n'
    expected = ['{"a":1}', '{"b":2} ', '{"c":\n[{}\n,{}]}', "[DONE]"]
    assert texts(stream) == expected
    same_at_every_cut(stream)


def test_each_event_has_its_own_name() -> None:
    stream = b"event: a\ndata: {}\n\nevent: a\ndata:{}\n\ndata: {}\n\nevent:  b\ndata: {}\n\nevent: \xff\ndata: {}\n\n"
    assert [event.event for event in split(stream)] == ["a", "a", "", " b", "\ufffd"]
    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == split(stream)


def test_whole_events_behind_an_unfinished_one_are_read_with_it() -> None:
    stream = b'event: a\n: x\ndata: {"1":1}\n\nevent: b\nid: 7\nevent: c\ndata: {"2":2}\n\ndata: [\ndata: {}\n\ndata: {"3":3}\ndata: {"4":4}\n\n'
    expected = [("a", '{"1":1}'), ("c", '{"2":2}'), ("", "[\n{}"), ("", '{"3":3}'), ("", '{"4":4}')]
    for pieces in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        assert [(event.event, event.text) for event in split(*pieces)] == expected


def test_an_event_past_its_bound_stops_the_splitter_wherever_it_is_cut() -> None:
    line = b'data: {"a":1,\n'
    for pieces in ([line * 9], [line] * 9, [line[:5], line[5:], line * 8]):
        splitter = SseSplitter(Limits(sse_event_bytes=30))
        assert [event for piece in pieces for event in splitter.feed(piece)] == []
        assert splitter.exceeded == "sse_event_bytes"


def test_lines_of_unknown_fields_are_kept_aside_up_to_a_bound() -> None:
    splitter = SseSplitter(Limits(leftover_bytes=20))
    splitter.feed(b'error: {"a":1}\n{\n "x": 1\n}\ndata: 1\n: comment\n')
    splitter.close()
    assert splitter.leftover == [b'error: {"a":1}', b"{"]


@pytest.mark.parametrize(
    "stream",
    [b'error: {"a":1}\ndata: 1\n\nx\n', b'data: 1\r\n\r\n{"error":\r\n 1}', b"event:test\ndata:x\n\nid: 7\n\n"],
)
def test_what_stays_behind_is_the_same_at_every_cut(stream: bytes) -> None:
    same_at_every_cut(stream)


@pytest.mark.parametrize(
    "done", [b"data: [DONE]\n\n", b"data:  [DONE] \n\n", b"data: [DONE]\n\nd: 2\n\ndata: [DONE]\n\n"]
)
def test_what_was_left_over_before_the_sentinel_is_known_at_every_cut(done: bytes) -> None:
    stream = b'a: 1\ndata: {}\n\n{"b": 1}\n' + done + b"c: 1\n"
    for cut in range(len(stream)):
        splitter = SseSplitter()
        for piece in (stream[:cut], stream[cut:]):
            splitter.feed(piece)
        assert splitter.left_before_done == [b"a: 1", b'{"b": 1}']
        assert splitter.leftover[-1] == b"c: 1"
    whole = SseSplitter()
    whole.feed(b"a: 1\ndata: 1\n\n")
    assert whole.left_before_done == [b"a: 1"]


def test_an_id_and_a_waiting_time_stay_over_events() -> None:
    events, last_id, retry_ms, _ = state(b"id: 9\nretry: 250\ndata: a\n\nretry: x\ndata: b\n\n")
    assert ([event.id for event in events], last_id, retry_ms) == (["9", "9"], "9", 250)


def test_an_unterminated_unknown_line_is_kept_too() -> None:
    splitter = SseSplitter()
    splitter.feed(b'data: 1\n\n{"error": 1}')
    splitter.close()
    assert splitter.leftover == [b'{"error": 1}']


def test_a_line_past_its_bound_stops_the_splitter_and_keeps_what_came_before() -> None:
    stream = b"data: ok\n\ndata: " + b"x" * 100 + b"\n\ndata: late\n\n"
    for pieces in ([stream], [stream[i : i + 1] for i in range(len(stream))], [stream[:40], stream[40:]]):
        splitter = SseSplitter(Limits(sse_line_bytes=50))
        events = [event for piece in pieces for event in splitter.feed(piece)]
        assert [event.text for event in events] == ["ok"]
        assert splitter.exceeded == "sse_line_bytes"
        assert splitter.close() == []


def test_an_endless_comment_is_bounded() -> None:
    splitter = SseSplitter(Limits(sse_line_bytes=50))
    for _ in range(60):
        splitter.feed(b":")
    assert splitter.exceeded == "sse_line_bytes"


def test_an_event_of_many_lines_is_bounded() -> None:
    splitter = SseSplitter(Limits(sse_event_bytes=50))
    assert [event.text for event in splitter.feed(b"data: ok\n\n" + b"data: 12345678\n" * 6 + b"\n")] == ["ok"]
    assert splitter.exceeded == "sse_event_bytes"


def test_empty_data_lines_count_too() -> None:
    splitter = SseSplitter(Limits(sse_event_bytes=50))
    assert splitter.feed(b"data\n" * 60 + b"\n\ndata: late\n\n") == []
    assert splitter.exceeded == "sse_event_bytes"


def test_a_line_of_ten_megabytes_passes() -> None:
    body = b"y" * (10 * 1024 * 1024)
    pieces = [b"data: ", *(body[i : i + 65536] for i in range(0, len(body), 65536)), b"\n\n"]
    (event,) = split(*pieces)
    assert event.data == body


def test_an_event_line_without_a_colon_takes_the_name_away() -> None:
    assert split(b"event: lost\nevent\ndata:x\n\n")[0].name == "message"
