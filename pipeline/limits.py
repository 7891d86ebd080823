"""Every bound of the core: its name, its unit, its default and why it stands there.

An exceeded bound ends that turn with the bound's name as the error's code; what was produced before it is kept, and no
other turn notices. The values of a turn are frozen in its first event, so that folding its log again meets the same
bounds. `BOUNDS` is the truth; `Limits` holds one value for each.
"""

from collections.abc import Mapping

import msgspec

MIB = 1024 * 1024


class Bound(msgspec.Struct, frozen=True):
    """One bound as documentation shows it."""

    name: str
    unit: str
    default: int
    reason: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds in force for one turn."""

    sse_line_bytes: int = 16 * MIB
    sse_event_bytes: int = 24 * MIB
    json_body_bytes: int = 32 * MIB
    leftover_bytes: int = 64 * 1024
    json_depth: int = 128
    item_text_chars: int = 16 * MIB
    turn_text_chars: int = 64 * MIB
    held_input_chars: int = MIB
    turn_items: int = 4096
    item_contents: int = 4096
    deferred_entries: int = 1024
    deferred_bytes: int = 256 * 1024
    error_message_chars: int = 2000

    def frozen(self) -> dict[str, int]:
        """The values as a turn's first event carries them."""
        return msgspec.structs.asdict(self)


BOUNDS: tuple[Bound, ...] = tuple(
    Bound(name, unit, getattr(Limits(), name), reason)
    for name, unit, reason in (
        ("sse_line_bytes", "bytes", "a base64 image in one data line is 1.3 to 10 MB; smaller scanners fail on it"),
        (
            "sse_event_bytes",
            "bytes",
            "the data lines of one event together; more than one line's worth, far from endless",
        ),
        ("json_body_bytes", "bytes", "a whole response in place of a stream is held until its end"),
        ("leftover_bytes", "bytes", "lines of unknown fields are kept to explain a failure, which is short"),
        ("json_depth", "levels", "deeper nesting would meet the interpreter's recursion limit in some later process"),
        ("item_text_chars", "characters", "the text of one slot is held until its final word"),
        ("turn_text_chars", "characters", "the same for all slots of a turn together"),
        ("held_input_chars", "characters", "tool input that waits for the tool's name"),
        ("turn_items", "items", "each open item costs memory for the length of the turn"),
        ("item_contents", "parts", "the same, for the parts of one item"),
        (
            "deferred_entries",
            "frames",
            "what waits in the relay for a call that the gateway answers, or that has no name yet",
        ),
        ("deferred_bytes", "bytes", "the same, by size"),
        ("error_message_chars", "characters", "an upstream's error page is kept short enough to read"),
    )
)


def limits_from(values: Mapping[str, int]) -> Limits:
    """Make the limits of a turn from its frozen values; a bound that is missing has its default."""
    known = {name: value for name, value in values.items() if name in Limits.__struct_fields__}
    for name, value in known.items():
        if value < 1:
            raise ValueError(f"the bound {name} must be at least 1, not {value}")
    return Limits(**known)
