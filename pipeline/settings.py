"""Streaming settings: how a turn's text becomes blocks. One resolver for every runtime and every channel.

Layers are merged field by field, the first that says a value wins; then each value is clamped once. The result, with all values,
is frozen in the turn's first event, and nothing else is asked: a change of configuration meets new turns alone. A value out of
range is clamped, the same way for everybody; a value of the wrong type and an unknown name are errors.

These are settings of a turn. What a channel's messages can hold is the matter of its projector and stands in its profile.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

UNBOUNDED = 1_000_000
"""The largest number of characters; an infinite one means this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its default, what it may be, and why it is there. A choice has `choices`, a number `low` and `high`."""

    name: str
    default: str | int
    why: str
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = UNBOUNDED
    infinite: int | None = None
    """What infinity means, where that is not the highest number."""

    @property
    def expected(self) -> str:
        """What a value of it looks like, in words."""
        return f"one of {', '.join(self.choices)}" if self.choices else f"a number from {self.low} to {self.high}"

    def read(self, value: Any) -> str | int:
        """Return the value, clamped; ValueError when it is of the wrong type."""
        if self.choices:
            if value not in self.choices:
                raise ValueError(value)
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise ValueError(value)
        if math.isinf(value):
            return self.low if value < 0 else self.high if self.infinite is None else self.infinite
        return min(max(round(value), self.low), self.high)


POLICIES = ("deliver", "note", "suppress")
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="min_chars",
            default=800,
            low=1,
            why="a block ends at no paragraph and at no silence before it holds so many; 1 where `chunk_mode` is `newline`",
        ),
        Setting(
            name="max_chars", default=1200, low=1, why="`opener + text + closer` of a block; about a phone's screen"
        ),
        Setting(
            name="idle_ms",
            default=1000,
            high=600_000,
            why="a silence after which what is held goes out, if it is enough",
        ),
        Setting(
            name="break",
            default="paragraph",
            choices=("paragraph", "newline", "sentence"),
            why="where a block best ends; white space and a hard cut come last",
        ),
        Setting(
            name="chunk_mode",
            default="length",
            choices=("length", "newline"),
            why="`newline`: every blank line outside a fence ends a block, whatever `break` prefers",
        ),
        Setting(
            name="hidden_boundary",
            default="space",
            choices=("none", "space", "newline", "paragraph"),
            why="what stands between two texts with a tool between them that is not shown",
        ),
        Setting(name="reasoning", default="hidden", choices=("hidden", "shown"), why="whether reasoning makes blocks"),
        Setting(name="tool_lines", default="none", choices=("none", "summary"), why="a line for each call of a tool"),
        Setting(name="status_lines", default="none", choices=("none", "summary"), why="a line for each status"),
        Setting(name="max_status_chars", default=320, low=64, high=8000, why="the length of such a line"),
        Setting(
            name="max_output_chars",
            default=0,
            high=500_000,
            infinite=0,
            why="text of a turn that is shown, the rest is kept as suppressed blocks; 0: all",
        ),
        Setting(name="on_failure", default="note", choices=POLICIES, why="text that is held when the turn fails"),
        Setting(name="on_cancel", default="note", choices=POLICIES, why="the same when it is cancelled"),
    )
}
KEYS = tuple(SETTINGS)
NEWLINE_MIN_CHARS = 1


class SettingError(ValueError):
    """A setting that cannot be used; says where it stands, which, what was found and what is expected."""

    def __init__(self, where: str, key: str, text: str) -> None:
        self.key = key
        super().__init__(f"{where}.{key}{text}")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a turn's text becomes blocks; lengths count UTF-16 units, as most channels do."""

    min_chars: int = 800
    max_chars: int = 1200
    idle_ms: int = 1000
    preference: str = "paragraph"
    chunk_mode: str = "length"
    hidden_boundary: str = "space"
    reasoning: str = "hidden"
    tool_lines: str = "none"
    status_lines: str = "none"
    max_status_chars: int = 320
    max_output_chars: int = 0
    on_failure: str = "note"
    on_cancel: str = "note"


_DEFAULT = StreamSettings()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Every value, the layer that said it, and what was said where another came out of it."""

    values: dict[str, str | int]
    sources: dict[str, str]
    said: dict[str, Any]


def check(layer: Mapping[str, Any], where: str) -> None:
    """Raise SettingError for a name that is no setting or a value of the wrong type."""
    for key, value in layer.items():
        if key not in SETTINGS:
            raise SettingError(where, key, f" = {value!r}: unknown key; settings are {', '.join(KEYS)}")
        try:
            SETTINGS[key].read(value)
        except (ValueError, TypeError):
            raise SettingError(where, key, f" = {value!r}: {SETTINGS[key].expected} is expected") from None


def resolve_layers(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> Resolved:
    """Merge layers, the strongest first, over the defaults."""
    resolved = Resolved({}, {}, {})
    merged: dict[str, tuple[str, Any]] = {}
    for where, layer in layers:
        check(layer, where)
        for key, value in layer.items():
            merged.setdefault(key, (where, value))
    for key, setting in SETTINGS.items():
        where, value = merged.get(key, ("default", setting.default))
        resolved.values[key] = setting.read(value)
        resolved.sources[key] = where
        if resolved.values[key] != value:
            resolved.said[key] = value
    if "min_chars" not in merged and resolved.values["chunk_mode"] == "newline":
        resolved.values["min_chars"], resolved.sources["min_chars"] = NEWLINE_MIN_CHARS, "chunk_mode"
    if int(resolved.values["min_chars"]) > int(resolved.values["max_chars"]):
        resolved.said.setdefault("min_chars", resolved.values["min_chars"])
        resolved.values["min_chars"] = resolved.values["max_chars"]
    return resolved


def resolve(frozen: Mapping[str, Any]) -> StreamSettings:
    """Read the settings of a turn's first event. What cannot be read counts as not said: a turn is never lost to its settings."""
    if not frozen:
        return _DEFAULT
    layer = {key: value for key, value in frozen.items() if _readable(key, value)}
    values = resolve_layers([("turn", layer)]).values
    names = {field.name: "break" if field.name == "preference" else field.name for field in fields(StreamSettings)}
    return StreamSettings(**{name: values[key] for name, key in names.items()})  # type: ignore[arg-type]  # each as its row says


def read_text(key: str, text: str) -> Any:
    """Return a setting's value that was written as text, in a variable or on a command line; a number where one is expected."""
    if key in SETTINGS and SETTINGS[key].choices:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _readable(key: str, value: Any) -> bool:
    try:
        check({key: value}, "turn")
    except SettingError:
        return False
    return True
