"""The comparer: every fault of another path is reported as exactly what it is, and nothing else is."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.shadow.alignment import CUT, align, flatten
from workers.shadow.comparison import Comparison, Kind, compare, compare_lists

OURS = [
    "I will look that up.\n\n🔧 search: weather in Rome",
    "It is sunny in Rome today, with a light wind.\n\nTomorrow it rains from noon on.",
    "```py\nprint('umbrella')\n```",
    "Take one with you, just in case.",
]

Fault = Callable[[list[str]], list[str]]


def glued(messages: list[str]) -> list[str]:
    return [messages[0], messages[1].replace("in Rome today", "inRome today"), *messages[2:]]


def lost_blank_line(messages: list[str]) -> list[str]:
    return [messages[0], messages[1].replace("\n\n", "\n"), *messages[2:]]


def lost_tail(messages: list[str]) -> list[str]:
    return [*messages[:-1], messages[-1][:14]]


def lost_message(messages: list[str]) -> list[str]:
    return messages[:-1]


def doubled(messages: list[str]) -> list[str]:
    return [*messages[:2], messages[1], *messages[2:]]


def reordered_tool_line(messages: list[str]) -> list[str]:
    head, tool = messages[0].split("\n\n")
    return [head, f"{messages[1]}\n\n{tool}", *messages[2:]]


def merged(messages: list[str]) -> list[str]:
    return ["\n\n".join(messages[:2]), *messages[2:]]


def cut_elsewhere(messages: list[str]) -> list[str]:
    return [messages[0], *messages[1].split("\n\n"), *messages[2:]]


FAULTS: dict[Fault, Kind] = {
    glued: Kind.SPACING,
    lost_blank_line: Kind.SPACING,
    lost_tail: Kind.MISSING,
    lost_message: Kind.MISSING,
    doubled: Kind.EXTRA,
    reordered_tool_line: Kind.ORDER,
    merged: Kind.SPLITTING,
    cut_elsewhere: Kind.SPLITTING,
}


def kinds(theirs: list[str], ours: list[str] | None = None) -> list[Kind]:
    return [difference.kind for difference in compare_lists(ours or OURS, theirs)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_reported_as_exactly_that(fault: Fault) -> None:
    assert kinds(fault(OURS)) == [FAULTS[fault]]


def test_a_clean_path_is_equal() -> None:
    assert kinds(list(OURS)) == []
    assert kinds([f"\n {message} \n" for message in OURS]) == []  # no channel shows these


def doubled_end(messages: list[str]) -> list[str]:
    return [*messages, messages[-1]]


@pytest.mark.parametrize("other", [lost_message, doubled_end], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize(
    "one", [glued, lost_blank_line, reordered_tool_line, merged, cut_elsewhere], ids=lambda fault: fault.__name__
)
def test_two_faults_at_two_places_are_both_found(one: Fault, other: Fault) -> None:
    kind = Kind.MISSING if other is lost_message else Kind.EXTRA
    assert set(kinds(one(other(OURS)))) == {FAULTS[one], kind}


def test_the_same_words_twice_are_two_texts() -> None:
    assert kinds(["yes", "yes"], ["yes"]) == [Kind.EXTRA]
    assert kinds(["yes"], ["yes", "yes"]) == [Kind.MISSING]


def test_other_words_are_missing_and_extra() -> None:
    assert kinds(["It is cold."], ["It is warm."]) == [Kind.MISSING, Kind.EXTRA]


def test_targets_are_compared_one_by_one() -> None:
    found = compare({"a": ["x"], "b": ["y"]}, {"a": ["x"], "c": ["y"]})
    assert [(difference.target, difference.kind) for difference in found.differences] == [
        ("b", Kind.MISSING),
        ("c", Kind.EXTRA),
    ]
    assert not found.is_equal
    assert found.kinds == (Kind.MISSING, Kind.EXTRA)


def test_the_diff_shows_both_sides_of_every_place() -> None:
    found = Comparison(differences=tuple(compare_lists(OURS, glued(OURS), "hook")))
    assert found.diff.startswith("spacing at hook (ours 2, theirs 2)\n  - ")
    assert "sunny in Rome today" in found.diff.splitlines()[1]
    assert "sunny inRome today" in found.diff.splitlines()[2]


TEXTS = st.lists(st.text(alphabet="ab .\n", max_size=12), max_size=5)


@given(TEXTS, TEXTS)
def test_every_character_is_in_a_run_or_in_a_rest_and_runs_are_alike(one: list[str], other: list[str]) -> None:
    ours, theirs = flatten(one), flatten(other)
    runs, rests = align(ours, theirs)
    for run in runs:
        assert ours.chars[run.ours : run.ours + run.size] == theirs.chars[run.theirs : run.theirs + run.size]
    covered = sum(run.size for run in runs)
    assert covered + sum(rest.ours[1] - rest.ours[0] for rest in rests) == len(ours.chars)
    assert covered + sum(rest.theirs[1] - rest.theirs[0] for rest in rests) == len(theirs.chars)


@given(TEXTS)
def test_whatever_equals_itself_is_equal(messages: list[str]) -> None:
    assert compare_lists(messages, messages) == []


@given(TEXTS, TEXTS)
def test_what_is_equal_reads_the_same(one: list[str], other: list[str]) -> None:
    if not compare_lists(one, other):
        assert [message.strip() for message in one if message.strip()] == [
            message.strip() for message in other if message.strip()
        ]


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=3), min_size=1, max_size=8), st.data())
def test_other_cuts_are_splitting_alone(words: list[str], data: st.DataObject) -> None:
    def cut() -> list[str]:
        borders = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
        messages = [words[0]]
        for word, is_border in zip(words[1:], borders, strict=False):
            if is_border:
                messages.append(word)
            else:
                messages[-1] += f" {word}"
        return messages

    assert set(kinds(cut(), cut())) <= {Kind.SPLITTING}


def test_a_gap_is_nothing_white_space_or_a_border() -> None:
    flat = flatten(["ab c", "", " d\n"])
    assert flat.chars == "abcd"
    assert flat.gaps == ("", "", " ", CUT)
    assert flat.owners == (0, 0, 0, 2)


@pytest.mark.parametrize("place", [0, 2, 3])
def test_of_two_texts_that_changed_places_the_shorter_is_shown_as_moved(place: int) -> None:
    line = "🔧 search"
    ours = [OURS[0], line, *OURS[1:]]
    theirs = [one for one in ours if one != line]
    theirs.insert(place, line)
    [difference] = compare_lists(ours, theirs)
    assert (difference.kind, difference.ours_at, difference.theirs_at) == (Kind.ORDER, 2, place + 1)
    assert difference.ours == difference.theirs == line
