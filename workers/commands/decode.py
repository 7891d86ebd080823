"""`foldline decode`: the core alone, on a recorded stream. It asks no server and reads no configuration.

Exit code 0 when the stream was decoded; 2 with one JSON diagnostic on stderr when it was refused, and then stdout stays empty.
"""

import enum
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pipeline import codec
from pipeline.errors import WireError
from pipeline.normalize.registry import WIRES
from pipeline.output import Block
from pipeline.turn import Decoded, Validation, decode
from workers.commands.session import EXIT_REFUSED, fail

Wire = enum.Enum("Wire", {name: name for name in WIRES})  # type: ignore[misc]  # the registry is the list


def decode_file(
    file: Annotated[str, typer.Argument(help="A recorded stream; - is standard input.")],
    *,
    wire: Annotated[Wire, typer.Option(help="What the recording speaks.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what breaks the wire's rules.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print canonical events, one a line.")] = False,
    frames: Annotated[bool, typer.Option("--frames", help="Print the public stream.")] = False,
    blocks: Annotated[bool, typer.Option("--blocks", help="Print the blocks, one a line.")] = False,
    payload: Annotated[bool, typer.Option("--payload", help="Print the final response object.")] = False,
    chunk_bytes: Annotated[int, typer.Option(min=0, help="Feed so many bytes at a time; 0: all at once.")] = 0,
) -> None:
    """Decode a recorded stream and print one view of it."""
    if events + frames + blocks + payload != 1:
        fail("decode: one of --events, --frames, --blocks and --payload is expected", EXIT_REFUSED)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        fail(f"decode: {error}")
    validation = Validation.STRICT if strict else Validation.LENIENT
    try:
        decoded = decode(chunks(data, chunk_bytes), str(wire.value), validation)
    except WireError as error:
        sys.stderr.write(msgspec.json.encode(error.diagnostic).decode() + "\n")
        raise SystemExit(EXIT_REFUSED) from None
    for piece in _view(decoded, events=events, frames=frames, blocks=blocks):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def chunks(data: bytes, size: int) -> Iterable[bytes]:
    """Cut a body as a socket might have."""
    return [data] if size < 1 else [data[start : start + size] for start in range(0, len(data), size)]


def block_line(block: Block) -> dict[str, object]:
    """Give a block as `--blocks` prints it; markers only where there are any."""
    line: dict[str, object] = {
        "block": block.ordinal,
        "opener": block.opener,
        "text": block.text,
        "closer": block.closer,
        "separator": block.separator,
    }
    return {**line, "markers": block.markers} if block.markers else line


def _view(decoded: Decoded, *, events: bool, frames: bool, blocks: bool) -> Iterator[bytes]:
    if events:
        yield from (codec.encode(event) + b"\n" for event in decoded.events)
    elif frames:
        yield from (frame.sse.encode() for frame in decoded.frames)
    elif blocks:
        yield from (msgspec.json.encode(block_line(block)) + b"\n" for block in decoded.blocks)
    else:
        yield msgspec.json.encode(decoded.payload.response) + b"\n"
