"""How a stream is spoiled: pieces lost, repeated, moved and taken from elsewhere; members of another form; bytes written over."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from scripts.fuzz.seeds import LINED, MOST, Piece, Seed

DEEP: Any = {"type": "message"}
for _ in range(150):
    DEEP = [DEEP]
JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 4096, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**400, 1.5, 1e308, float("nan"),
    "", "x", "0", "\ud83d", "\ude00", "\U0001f600", "\u2028", "\x00", "\r\n", "```\n", "[DONE]", "{}", '{"input": "a"}', "a" * 3000,
    [], {}, [[]], [{}], ["x"], [None], {"type": "message"}, {"type": "alien", "id": "a"}, {"text": 1}, {"id": None}, DEEP,
    "message", "function_call", "response.completed", "response.output_item.done", "error", "stop", "tool_calls", "completed", "failed",
)  # fmt: skip
SCRAPS = (
    b"\n", b"\r", b"\r\n", b"\n\n", b"data:", b"data: ", b"data: {}\n\n", b"data: [DONE]\n\n", b"event: error\n", b"id: 1\n", b": c\n", b"retry: 1\n",
    b"null", b"\xff", b"\xe2\x80", b"\xef\xbb\xbf", b'"', b"}", b"{", b"]", b"[", b"0", b"-1", b"NaN", b"\\ud800", b"\\", b"\x00", b'"type":"error",',
)  # fmt: skip
ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r")


def spoiled(rng: Random, seeds: Sequence[Seed]) -> tuple[str, list[Piece]]:
    """A stream of at most forty events with one to six things done to it, and its wire."""
    seed = rng.choice(seeds)
    pieces = list(seed.pieces)
    if len(pieces) > MOST:
        start = rng.choice((0, 0, rng.randrange(len(pieces) - MOST)))
        pieces = [*pieces[start : start + MOST - 1], pieces[-1]]
    for _ in range(rng.randint(1, 6)):
        if not pieces:
            break
        rng.choice(CHANGES)(rng, pieces, seeds)
    return seed.wire, pieces[:MOST]


def _drop(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    start = rng.randrange(len(pieces))
    del pieces[start : start + rng.choice((1, 1, 1, 4))]


def _repeat(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    pieces.insert(rng.randint(0, len(pieces)), rng.choice(pieces))


def _done_again(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    """The end of an item or of the turn comes again, or too early."""
    ends = [at for at, piece in enumerate(pieces) if b"done" in piece.data or b"completed" in piece.data]
    at = rng.choice(ends) if ends else len(pieces) - 1
    pieces.insert(rng.randint(0, len(pieces)), pieces[at])


def _swap(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    one, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[one], pieces[other] = pieces[other], pieces[one]


def _move(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    piece = pieces.pop(rng.randrange(len(pieces)))
    pieces.insert(rng.randint(0, len(pieces)), piece)


def _mix(rng: Random, pieces: list[Piece], seeds: Sequence[Seed]) -> None:
    """A piece of another stream, mostly of the same wire."""
    other = rng.choice(seeds).pieces
    pieces.insert(rng.randint(0, len(pieces)), rng.choice(other))


def _alter(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    """Some members of one event are of another form, lost, or another event's."""
    at = rng.randrange(len(pieces))
    try:
        value = json.loads(pieces[at].data)
    except (ValueError, RecursionError):
        return
    for _ in range(rng.randint(1, 3)):
        value = _altered(rng, value)
    data = json.dumps(value, ensure_ascii=rng.random() < 0.7).encode("utf-8", "surrogatepass")
    pieces[at] = Piece(pieces[at].name, data)


def _altered(rng: Random, value: Any) -> Any:
    """Change one place, found by walking down at random."""
    holder: Any = None
    place: Any = None
    inner = value
    while isinstance(inner, (dict, list)) and inner and rng.random() < 0.85:
        holder, place = inner, rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
        inner = holder[place]
    if holder is None:
        return deepcopy(rng.choice(JUNK))
    kind = rng.random()
    if kind < 0.2:
        del holder[place]
    elif kind < 0.3 and isinstance(holder, dict):
        holder[rng.choice(("index", "output_index", "content_index", "id", "item_id", "type", "text", "error"))] = inner
    elif kind < 0.4 and isinstance(inner, str):
        cut = rng.randint(0, len(inner))
        holder[place] = inner[:cut] + rng.choice(("", "\ud83d", "}", '"', "\n", inner))
    elif kind < 0.5 and isinstance(inner, int):
        holder[place] = inner + rng.choice((-1, 1, 1, 2))
    else:
        holder[place] = deepcopy(rng.choice(JUNK))
    return value


def _rename(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    """From somewhere on, one number or name stands where another stood: ids and indexes rotate and collide."""
    words = [b'"output_index":', b'"index":', b'"content_index":', b'"item":', b'"content":']
    start, word = rng.randrange(len(pieces)), rng.choice(words)
    old, new = (word + b"%d" % rng.randrange(4) for _ in "ab")
    if rng.random() < 0.5:
        old, new = (
            rng.choice((b"_0", b"_1", b"_2", b"call", b"msg", b"fc", b"added", b"done", b"delta")) for _ in "ab"
        )
    for at in range(start, len(pieces)):
        piece = pieces[at]
        if old in piece.data:
            pieces[at] = Piece(piece.name, piece.data.replace(old, new))


def _speaker(rng: Random, pieces: list[Piece], _seeds: Sequence[Seed]) -> None:
    """Somebody else says it."""
    at = rng.randrange(len(pieces))
    name = rng.choice(("", "error", "message", "ingest", "tools", "child:a", "response.completed", "ping", "x\r"))
    pieces[at] = Piece(name, pieces[at].data)


CHANGES: tuple[Callable[[Random, list[Piece], Sequence[Seed]], None], ...] = (
    _drop, _repeat, _done_again, _swap, _move, _mix, _alter, _alter, _alter, _alter, _rename, _speaker,
)  # fmt: skip


def written(rng: Random, wire: str, pieces: Sequence[Piece]) -> bytes:
    """The pieces as their wire has them, with bytes of some written over now and then."""
    end = rng.choice(ENDS)
    if wire in LINED:
        data = b"".join(piece.data + b"\n" for piece in pieces)
    elif rng.random() < 0.02:
        data = b"[%b]" % b",".join(piece.data for piece in pieces)
    else:
        named, space = rng.random() < 0.8, rng.choice((b" ", b" ", b""))
        data = b"".join(
            (b"event:%b%b%b" % (space, piece.name.encode(), end) if named and piece.name else b"")
            + b"data:%b%b%b%b" % (space, piece.data, end, end)
            for piece in pieces
        )
    if rng.random() < 0.15:
        for _ in range(rng.randint(1, 3)):
            start = rng.randint(0, len(data))
            data = data[:start] + rng.choice(SCRAPS) + data[start + rng.choice((0, 0, 1, 3, 50)) :]
    return data[: rng.randint(0, len(data))] if rng.random() < 0.05 else data


def cut(rng: Random, data: bytes) -> list[bytes]:
    """The bytes as reads give them."""
    most = rng.choice((1 << 20, 1 << 20, 400, 100)) if rng.random() < 0.95 else 7
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = rng.randint(1, most)
        pieces.append(data[at : at + size])
        at += size
    return pieces
