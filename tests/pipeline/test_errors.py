"""The exceptions' tree and the diagnostic's words."""

import pytest

from pipeline.errors import (
    FOUND_CHARS,
    Diagnostic,
    EventRefused,
    LimitExceeded,
    MisuseError,
    PipelineError,
    WireError,
    shorten,
)


def test_every_exception_has_its_place() -> None:
    assert issubclass(EventRefused, WireError)
    assert issubclass(WireError, PipelineError)
    assert issubclass(MisuseError, PipelineError)
    assert not issubclass(MisuseError, WireError)


def test_a_diagnostic_says_what_was_expected_what_was_found_and_where() -> None:
    diagnostic = Diagnostic(
        code="wrong_type", path="$.seq", expected="int", found='"1"', turn="3-a", producer="ingest", seq=4
    )
    assert str(WireError(diagnostic)) == (
        'wrong_type at $.seq: expected int, found "1", turn 3-a, producer ingest, seq 4'
    )
    assert str(Diagnostic(code="c", expected="e", found="f")) == "c at $: expected e, found f"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "null"),
        ({"a": 1}, '{"a":1}'),
        (b"a\xff", "a\ufffd"),
        (b"x" * 500, "x" * FOUND_CHARS + "…"),
        ("y" * 500, '"' + "y" * (FOUND_CHARS - 1) + "…"),
        (object(), "object"),
        ("\ud800", "str"),
    ],
)
def test_what_was_found_is_shortened(found: object, text: str) -> None:
    assert shorten(found) == text


def test_an_exceeded_bound_has_its_name() -> None:
    exceeded = LimitExceeded("turn_items", 3)
    assert isinstance(exceeded, PipelineError)
    assert (exceeded.name, str(exceeded)) == ("turn_items", "the turn exceeds its bound turn_items of 3")
