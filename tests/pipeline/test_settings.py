import math
from typing import Any

import pytest

from pipeline.settings import KEYS, SETTINGS, SettingError, StreamSettings, check, read_text, resolve, resolve_layers


def test_the_first_layer_that_says_a_value_wins_field_by_field() -> None:
    made = resolve_layers(
        [
            ("account", {"min_chars": 10}),
            ("channel", {"min_chars": 20, "max_chars": 300}),
            ("runtime", {"max_chars": 400, "break": "sentence"}),
        ]
    )
    assert (made.values["min_chars"], made.values["max_chars"], made.values["break"]) == (10, 300, "sentence")
    assert (made.sources["min_chars"], made.sources["max_chars"], made.sources["break"]) == (
        "account",
        "channel",
        "runtime",
    )
    assert (made.values["idle_ms"], made.sources["idle_ms"]) == (1000, "default")


def test_every_runtime_has_the_same_defaults() -> None:
    assert resolve({}) == StreamSettings()
    assert resolve(resolve_layers([]).values) == StreamSettings()


@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        ({"max_chars": 300}, "min_chars", 300),  # the minimum is lowered to the maximum
        ({"min_chars": 500, "max_chars": 100}, "min_chars", 100),
        ({"max_chars": 64, "idle_ms": 25}, "min_chars", 64),
        ({"max_chars": 64, "idle_ms": 25}, "idle_ms", 25),
        ({"max_chars": 1800}, "max_chars", 1800),
        ({"max_chars": 1800.6}, "max_chars", 1801),
        ({"max_chars": -4}, "max_chars", 1),
        ({"max_chars": math.inf}, "max_chars", 1_000_000),
        ({"max_output_chars": math.inf}, "max_output_chars", 0),
        ({"idle_ms": 0}, "idle_ms", 0),
        ({"idle_ms": 9_999_999}, "idle_ms", 600_000),
        ({"max_status_chars": 1}, "max_status_chars", 64),
        ({"chunk_mode": "newline"}, "min_chars", 1),
        ({"chunk_mode": "newline", "min_chars": 30}, "min_chars", 30),
    ],
)
def test_values_are_clamped_once(said: dict[str, Any], key: str, value: int) -> None:
    assert resolve_layers([("x", said)]).values[key] == value


def test_what_was_said_stays_known_where_another_value_came_out() -> None:
    made = resolve_layers([("x", {"idle_ms": -5, "min_chars": 3})])
    assert made.said == {"idle_ms": -5}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"min_chars": "many"}, "file: min.min_chars = 'many': a number from 1 to 1000000 is expected"),
        ({"min_chars": True}, "min_chars = True"),
        ({"max_chars": math.nan}, "max_chars = nan"),
        ({"max_chars": None}, "max_chars = None"),
        ({"break": "page"}, "break = 'page': one of paragraph, newline, sentence is expected"),
        ({"break": ["paragraph"]}, "break = ['paragraph']"),
        ({"minChars": 3}, "minChars = 3: unknown key; settings are min_chars, "),
    ],
)
def test_a_wrong_type_and_an_unknown_key_are_errors_that_name_both(said: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as refused:
        check(said, "file: min")
    assert words in str(refused.value)


def test_a_turn_is_never_lost_to_its_frozen_settings() -> None:
    assert resolve({"min_chars": "many", "speed": 1, "max_chars": 900}) == StreamSettings(max_chars=900)


def test_text_is_read_as_a_number_where_one_is_expected() -> None:
    assert [read_text("min_chars", text) for text in ("7", "7.5", "inf", "x")] == [7, 7.5, math.inf, "x"]
    assert read_text("break", "7") == "7"


def test_every_setting_has_a_default_within_its_own_bounds() -> None:
    for key in KEYS:
        assert SETTINGS[key].read(SETTINGS[key].default) == SETTINGS[key].default
