"""Events to JSON and back; whatever is not an event of the contract is refused here with a diagnostic.

One event is one JSON object without a raw line feed. A batch is `[first,` LF `next]`: entries of the log stay readable in
redis-cli, and an event can be found again in its entry by text alone.
"""

import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from pipeline.errors import Diagnostic, EventRefused, shorten
from pipeline.events import CONTRACT_VERSION, EVENT_TYPES, Event, Outcome, RuntimeName, Track, TurnStarted

__all__ = ["CONTRACT_VERSION", "Diagnostic", "EventRefused", "decode", "decode_batch", "encode", "encode_batch"]

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_batch_decoder: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])


def encode(event: Event) -> bytes:
    """Write one event as JSON."""
    return _encoder.encode(event)


def encode_batch(events: Iterable[Event]) -> str:
    """Write events as one JSON list with a line for each."""
    return "[" + ",\n".join([_encoder.encode(event).decode() for event in events]) + "]"


def decode(data: bytes | str, *, turn: str | None = None, producer: str | None = None) -> Event:
    """Read one event; raise EventRefused, naming the turn and producer given, for anything else."""
    try:
        event = _event_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventRefused(_diagnose(data, error, turn, producer)) from None
    _check_contract(event, turn, producer)
    return event


def decode_batch(data: bytes | str, *, turn: str | None = None, producer: str | None = None) -> list[Event]:
    """Read the events of one log entry; the path of a diagnostic says which one was refused."""
    try:
        events = _batch_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventRefused(_diagnose(data, error, turn, producer)) from None
    for index, event in enumerate(events):
        _check_contract(event, turn, producer, f"$[{index}]")
    return events


def _check_contract(event: Event, turn: str | None, producer: str | None, at: str = "$") -> None:
    if isinstance(event, TurnStarted) and event.contract != CONTRACT_VERSION:
        raise EventRefused(
            Diagnostic(
                code="contract_unknown",
                path=f"{at}.contract",
                expected=f"{CONTRACT_VERSION}",
                found=f"{event.contract}",
                turn=turn or event.turn,
                producer=producer,
                seq=event.seq,
            )
        )


_STEPS = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_WORDS = {
    "track": " | ".join(get_args(Track)),
    "runtime": " | ".join(get_args(RuntimeName)),
    "outcome": " | ".join(get_args(Outcome)),
}
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("member_missing", re.compile(r"Object missing required field `(?P<member>[^`]*)`")),
    ("member_unknown", re.compile(r"Object contains unknown field `(?P<member>[^`]*)`")),
    ("type_unknown", re.compile(r"Invalid value '?(?P<found>.*?)'?$")),
    ("value_unknown", re.compile(r"Invalid enum value (?P<found>.*)$")),
    ("value_out_of_range", re.compile(r"Expected `(?P<expected>\w+)` (?P<bound>[<>]=? .*)$")),
    ("wrong_type", re.compile(r"Expected `(?P<expected>[^`]*)`(?:, got `[^`]*`)?$")),
)


def _diagnose(data: bytes | str, error: Exception, turn: str | None, producer: str | None) -> Diagnostic:
    """Say what msgspec found, in the words of the contract; the value itself is looked up by the path."""
    if not isinstance(error, msgspec.ValidationError):
        return Diagnostic(code="json_malformed", expected="JSON", found=shorten(data), turn=turn, producer=producer)
    match = _AT.match(str(error))
    text, path = (match["text"], match["path"] or "$") if match else (str(error), "$")
    try:
        whole = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):  # a number out of range is refused as a value, not as text
        return Diagnostic(code="json_malformed", expected="JSON", found=shorten(data), turn=turn, producer=producer)
    code, path, expected = _classify(text, path)
    return Diagnostic(
        code=code,
        path=path,
        expected=expected,
        found=_found(whole, path),
        turn=turn,
        producer=producer,
        seq=_seq(whole, path),
    )


def _classify(text: str, path: str) -> tuple[str, str, str]:
    for code, pattern in _PATTERNS:
        match = pattern.match(text)
        if match is None:
            continue
        if code == "member_missing":
            member = match["member"]
            if member == "type":
                return "type_missing", f"{path}.type", " | ".join(EVENT_TYPES)
            return code, f"{path}.{member}", "a value"
        if code == "member_unknown":
            return code, f"{path}.{match['member']}", "no such member"
        if code == "type_unknown":
            return code, path, " | ".join(EVENT_TYPES)
        if code == "value_unknown":
            return code, path, _WORDS.get(path.rpartition(".")[2], "a word of the contract")
        if code == "value_out_of_range":
            return code, path, f"{match['expected']} {match['bound']}"
        return code, path, match["expected"]
    return "event_invalid", path, text


def _found(whole: Any, path: str) -> str:
    value = whole
    for name, index in _STEPS.findall(
        path.removeprefix("$").partition("[...]")[0]
    ):  # msgspec names no key of a mapping
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    return shorten(value)


def _seq(whole: Any, path: str) -> int | None:
    first = _STEPS.findall(path.removeprefix("$"))
    if isinstance(whole, list) and first and first[0][1]:
        index = int(first[0][1])
        whole = whole[index] if index < len(whole) else None
    seq = whole.get("seq") if isinstance(whole, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None
