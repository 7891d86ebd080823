"""`foldline decode`: the core alone, on a recorded stream. It asks no server and reads no configuration.

Exit code 0 when the stream was decoded; 2 with one JSON diagnostic on stderr when it was refused, and then stdout stays empty; 2 in words
when there is no stream to decode.
"""

import enum
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
import typer

from pipeline import codec
from pipeline.errors import WireError
from pipeline.normalize.registry import WIRES
from pipeline.output import Block
from pipeline.project.parts import Profile
from pipeline.project.registry import CHANNELS, profile_of, project, shown
from pipeline.settings import KEYS, SettingError, check
from pipeline.turn import Decoded, Validation, decode
from workers.commands.given import read_input
from workers.commands.session import EXIT_REFUSED, fail
from workers.commands.settings import read_given

Wire = enum.Enum("Wire", {name: name for name in WIRES})  # type: ignore[misc]  # the registry is the list
Channel = enum.Enum("Channel", {name: name for name in CHANNELS})  # type: ignore[misc]  # the registry is the list
BOUNDS = ("limit", "max_lines")
"""What `--set` may say of a channel, besides the settings of a turn."""


def decode_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A recorded stream; - is standard input.")],
    *,
    wire: Annotated[Wire, typer.Option(help="What the recording speaks.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what breaks the wire's rules.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print canonical events, one a line.")] = False,
    frames: Annotated[bool, typer.Option("--frames", help="Print the public stream.")] = False,
    blocks: Annotated[bool, typer.Option("--blocks", help="Print the blocks, one a line.")] = False,
    payload: Annotated[bool, typer.Option("--payload", help="Print the final response object.")] = False,
    project_to: Annotated[
        Channel | None, typer.Option("--project", help="Print what a channel is sent, `block part text` a line.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A streaming setting, or with --project limit or max_lines; again for more.",
        ),
    ] = None,
    idle: Annotated[bool, typer.Option("--idle", help="Take gaps between the events' times for silences.")] = False,
    chunk_bytes: Annotated[
        int, typer.Option(min=0, metavar="BYTES", help="Feed so many bytes at a time; 0: all at once.")
    ] = 0,
) -> None:
    """Decode a recorded stream and print one view of it."""
    if events + frames + blocks + payload + (project_to is not None) != 1:
        fail("decode: one of --events, --frames, --blocks, --payload and --project is expected", EXIT_REFUSED)
    settings, profile = _read_set(given, None if project_to is None else str(project_to.value))
    data = read_input("decode", file)
    validation = Validation.STRICT if strict else Validation.LENIENT
    try:
        body = chunks(data, chunk_bytes)
        decoded = decode(body, str(wire.value), validation, settings=settings, idle=idle)
    except WireError as error:
        sys.stderr.write(msgspec.json.encode(error.diagnostic).decode() + "\n")
        raise SystemExit(EXIT_REFUSED) from None
    view = _view(decoded, events=events, frames=frames, blocks=blocks) if profile is None else _parts(decoded, profile)
    for piece in view:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _read_set(given: list[str] | None, channel: str | None) -> tuple[dict[str, Any], Profile | None]:
    """Tell the settings of the turn from the bounds of the channel."""
    said = read_given(given)
    bounds = {key: said.pop(key) for key in BOUNDS if channel is not None and key in said}
    for key, value in bounds.items():
        if CHANNELS[channel or ""].limit is None:
            fail(f"decode: --set {key}={value}: {channel} gets every block whole, and has no {key}", EXIT_REFUSED)
        if not isinstance(value, int) or value < 1:
            fail(f"decode: --set {key}={value}: a whole number above 0 is expected", EXIT_REFUSED)
    try:
        check(said, "settings")
    except SettingError as error:
        more = "" if set(said) <= set(KEYS) else f"; with --project of a chat channel also {' and '.join(BOUNDS)}"
        fail(f"decode: --set {error}{more}", EXIT_REFUSED)
    return said, None if channel is None else profile_of(channel, **bounds)


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


def _parts(decoded: Decoded, profile: Profile) -> Iterator[bytes]:
    """What the channel is sent. A channel whose body is JSON also shows what of it is read."""
    for block in decoded.blocks:
        for part in project(block, profile):
            line: dict[str, object] = {"block": block.ordinal, "part": part.ordinal, "text": part.body}
            if part.content_type == "application/json":
                line = {**line, "text": shown(profile.channel, part.body), "body": msgspec.Raw(part.body.encode())}
            yield msgspec.json.encode(line) + b"\n"


def _view(decoded: Decoded, *, events: bool, frames: bool, blocks: bool) -> Iterator[bytes]:
    if events:
        yield from (codec.encode(event) + b"\n" for event in decoded.events)
    elif frames:
        yield from (frame.sse.encode() for frame in decoded.frames)
    elif blocks:
        yield from (msgspec.json.encode(block_line(block)) + b"\n" for block in decoded.blocks)
    else:
        yield msgspec.json.encode(decoded.payload.response) + b"\n"
