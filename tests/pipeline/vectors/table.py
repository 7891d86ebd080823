"""Which test shows which public vector, or why none does.

    python -m tests.pipeline.vectors.table    # writes the table into tests/README.md

`IDS` is every vector of the groups CK CO PL AC TX DC TG CF and every report B1 to B42. A row names a test of `test_blocks.py` (`b:`), of
`test_parts.py` (`p:`), of another file (`path::name`), or says `n/a` with its reason. Where a law of ours changes the vector's literal, `how` says so.
"""

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "tests" / "README.md"
START, END = "<!-- generated:vectors -->\n", "<!-- /generated:vectors -->"
FILES = {"b": "tests/pipeline/vectors/test_blocks.py", "p": "tests/pipeline/vectors/test_parts.py"}

GROUPS = {
    "CK": (1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 14, 16, 17),
    "CO": (1, 2, 3, 4, 5, 6, 7, 8, 10),
    "PL": (1, 2, 4, 5, 7),
    "AC": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14),
    "TX": (1, 2, 4, 6, 7, 9),
    "DC": (1, 4, 5, 6, 8),
    "TG": (1, 2),
    "CF": (1, 3, 4, 5, 7),
    "B": tuple(range(1, 43)),
}
IDS = tuple(f"{group}{number}" for group, numbers in GROUPS.items() for number in numbers)

SETTINGS = "tests/pipeline/test_settings.py::test_values_are_clamped_once"
UNANSWERED = (
    "tests/workers/delivery/test_worker.py::test_a_receiver_that_never_answers_is_asked_again_under_the_same_key"
)
NO_FINAL = "there is no final message that repeats the blocks, so nothing has to be told apart from it by its text"
NO_MEDIA = "n/a: blocks hold text; media, replies and voice flags are not in a block"
NOT_TOLD = "n/a: our source lists no such report"


class Row(NamedTuple):
    """One vector: the test that shows it, and how a law changes its literal."""

    test: str
    how: str = ""


ROWS: dict[str, Row] = {
    "CK1": Row("b:test_a_whole_fence_ends_a_block_and_what_follows_waits"),
    "CK2": Row("b:test_newline_mode_ends_at_the_first_blank_line_past_the_minimum"),
    "CK3": Row("b:test_newline_mode_below_the_minimum_gives_nothing"),
    "CK4": Row("b:test_a_word_longer_than_a_block_is_cut_hard"),
    "CK6": Row("b:test_a_cut_takes_no_surrogate_pair_apart"),
    "CK8": Row("b:test_the_closer_is_reserved_when_a_fence_is_cut"),
    "CK9": Row("b:test_a_blank_line_within_a_fence_ends_nothing"),
    "CK10": Row("b:test_code_longer_than_a_block_is_reopened_with_its_language_and_never_empty"),
    "CK11": Row("b:test_the_true_closer_is_used_where_it_fits"),
    "CK12": Row("b:test_an_indented_fence_stays_whole_between_paragraphs"),
    "CK14": Row("b:test_two_paragraphs_past_the_minimum_are_two_blocks"),
    "CK16": Row(
        "b:test_the_start_of_a_fence_is_not_given_out_before_a_tool",
        "law 4: tags are text everywhere, none is stripped",
    ),
    "CK17": Row(
        "b:test_tildes_in_the_middle_of_a_cut_line_are_no_fence", "law 4: the private text is the model's, and stays"
    ),
    "CO1": Row(
        "b:test_deltas_are_joined_as_they_come_and_go_out_after_a_silence",
        "law 4: the joiner is empty; the space is the model's",
    ),
    "CO2": Row("b:test_a_silence_gives_nothing_out_below_the_minimum", "law 4: as CO1"),
    "CO3": Row("b:test_short_paragraphs_are_one_block_with_their_own_blank_line", "law 4: as CO1"),
    "CO4": Row("b:test_a_flush_gives_out_what_is_below_the_minimum"),
    "CO5": Row("b:test_reasoning_and_answer_are_never_one_block"),
    "CO6": Row(NO_MEDIA),
    "CO7": Row(NO_MEDIA),
    "CO8": Row("n/a: no configuration reaches that flag, there or here"),
    "CO10": Row("b:test_a_silence_of_no_length_is_one"),
    "PL1": Row(
        UNANSWERED, "law 6: what was sent is not sent again, what was not is retried as itself, from its record"
    ),
    "PL2": Row(UNANSWERED, "law 6: as PL1"),
    "PL4": Row("b:test_equal_texts_at_two_places_are_two_texts", "law 5: by place; replies are the target's"),
    "PL5": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing", "law 5: no key is made of text"),
    "PL7": Row(
        "tests/workers/delivery/test_worker.py::test_order_and_number_survive_every_kind_of_fault",
        "law 6: a block that failed before its send is retried as itself",
    ),
    "AC1": Row("b:test_full_blocks_go_out_while_the_text_streams"),
    "AC2": Row("b:test_a_delta_across_the_limit_is_cut_at_the_limit"),
    "AC3": Row("b:test_half_a_sentence_waits_for_the_rest_of_it"),
    "AC4": Row(
        "b:test_text_between_tools_is_told_apart_from_them_and_kept_in_order",
        "text goes out before each tool: two blocks that join to the vector's text",
    ),
    "AC5": Row(
        "b:test_texts_around_a_tool_are_set_apart_as_configured", "the blank line is the boundary, a field of its own"
    ),
    "AC6": Row(
        "b:test_a_hidden_tool_leaves_a_boundary_and_never_glue", "the space is the boundary, a field of its own"
    ),
    "AC7": Row("b:test_a_hidden_status_leaves_no_trace"),
    "AC8": Row(
        "b:test_what_is_beyond_the_bound_of_the_output_is_recorded_and_told_once",
        "law 4: what is dropped is recorded as suppressed blocks",
    ),
    "AC9": Row("b:test_a_hidden_status_leaves_no_trace", "reports of usage are never lines, equal or not"),
    "AC10": Row("b:test_the_same_text_in_two_turns_is_sent_twice"),
    "AC12": Row("b:test_text_goes_out_before_a_status_line"),
    "AC13": Row(
        "b:test_each_call_is_told_once_whatever_is_said_of_it", "law 5: told once by the call's id; there is no switch"
    ),
    "AC14": Row("b:test_deltas_below_the_minimum_are_one_block_at_the_end"),
    "TX1": Row("p:test_plain_text_is_split_at_lines_then_words_then_hard"),
    "TX2": Row("p:test_plain_text_is_split_at_lines_then_words_then_hard"),
    "TX4": Row("p:test_plain_text_is_split_at_lines_then_words_then_hard"),
    "TX6": Row(
        "p:test_plain_text_is_split_at_lines_then_words_then_hard",
        "`alpha beta` is exactly ten characters and fits; the vector leaves it out because its splitter does not look at what follows",
    ),
    "TX7": Row("p:test_plain_text_is_split_at_lines_then_words_then_hard"),
    "TX9": Row("p:test_a_space_with_a_mark_on_it_is_no_place_to_split"),
    "DC1": Row("p:test_short_lines_are_split_by_their_number"),
    "DC4": Row("p:test_discord_keeps_blanks_at_a_cut_and_prefers_them_to_cjk_marks"),
    "DC5": Row("p:test_a_fence_takes_two_of_the_lines_of_a_message"),
    "DC6": Row("p:test_a_long_line_of_code_is_cut_hard_within_its_fence"),
    "DC8": Row("p:test_ticks_with_text_behind_them_close_no_fence_on_any_channel"),
    "TG1": Row("p:test_ampersands_grow_and_none_is_cut"),
    "TG2": Row("p:test_emoji_count_as_two_units"),
    "CF1": Row(SETTINGS, "one pair of numbers, so nothing has to be clamped to another pair"),
    "CF3": Row(SETTINGS, "a channel's limit acts in its projector; a turn's 1800 stays 1800"),
    "CF4": Row(SETTINGS),
    "CF5": Row(SETTINGS),
    "CF7": Row(
        SETTINGS,
        "one range for all runtimes: `max_chars` from 1, `idle_ms` to 600,000, so that silences can be switched off",
    ),
    "B1": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing"),
    "B2": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing", NO_FINAL),
    "B3": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing"),
    "B4": Row("b:test_two_messages_are_not_glued", NO_FINAL),
    "B5": Row("n/a: replies are the target's; " + NO_FINAL),
    "B6": Row("b:test_deltas_below_the_minimum_are_one_block_at_the_end", "nothing is marked as seen by its text"),
    "B7": Row("b:test_equal_texts_at_two_places_are_two_texts"),
    "B8": Row("b:test_equal_texts_at_two_places_are_two_texts", NO_FINAL),
    "B9": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing", NO_FINAL),
    "B10": Row("b:test_a_final_word_that_repeats_the_deltas_adds_nothing", NO_FINAL),
    "B11": Row(
        "b:test_code_longer_than_a_block_is_reopened_with_its_language_and_never_empty",
        "law 5: equal pieces are pieces",
    ),
    "B12": Row(
        "tests/workers/delivery/test_worker.py::test_order_and_number_survive_every_kind_of_fault",
        "law 6: retry before the send, unknown after it; nothing competes with it",
    ),
    "B13": Row(UNANSWERED, "no tail is held back for directives; a block that failed is sent again alone"),
    "B14": Row("b:test_nothing_is_put_between_deltas_and_nothing_taken"),
    "B15": Row(
        "tests/workers/delivery/test_worker.py::test_blocks_reach_every_target_once_and_in_order",
        "a lane sends in the order of its blocks",
    ),
    "B16": Row("b:test_text_between_tools_is_told_apart_from_them_and_kept_in_order"),
    "B17": Row("b:test_a_hidden_tool_leaves_a_boundary_and_never_glue"),
    "B18": Row("b:test_nothing_is_put_between_deltas_and_nothing_taken"),
    "B19": Row("b:test_every_blank_line_is_there_once_whatever_the_deltas"),
    "B20": Row("b:test_a_flush_keeps_the_line_feed_between_two_texts"),
    "B21": Row("b:test_every_blank_line_is_there_once_whatever_the_deltas"),
    "B22": Row(
        "b:test_nothing_is_put_between_deltas_and_nothing_taken",
        "named in the source without its text: no suffix is guessed",
    ),
    "B23": Row("b:test_deltas_below_the_minimum_are_one_block_at_the_end"),
    "B24": Row("p:test_a_reply_under_the_limit_is_one_message"),
    "B25": Row("p:test_a_reply_under_the_limit_is_one_message"),
    "B26": Row("p:test_a_limit_below_a_fences_marks_is_kept"),
    "B27": Row("b:test_a_line_with_text_behind_the_ticks_closes_no_fence"),
    "B28": Row("b:test_a_long_first_line_of_a_fence_is_not_repeated_and_leaves_no_stray_mark"),
    "B29": Row(SETTINGS),
    "B30": Row(SETTINGS),
    "B31": Row(NOT_TOLD),
    "B32": Row(NOT_TOLD),
    "B33": Row("p:test_a_table_or_a_quote_is_split_between_its_lines"),
    "B34": Row("p:test_markup_that_grows_is_split_again"),
    "B35": Row("n/a: rich messages are not sent; the rule is B34's"),
    "B36": Row("p:test_short_lines_are_split_by_their_number"),
    "B37": Row("p:test_reasoning_is_italic_in_every_piece"),
    "B38": Row("b:test_newline_mode_makes_each_paragraph_a_block"),
    "B39": Row("b:test_newline_mode_makes_each_paragraph_a_block", "chosen: separate, unless `min_chars` is set"),
    "B40": Row(NOT_TOLD),
    "B41": Row("b:test_a_tail_is_given_out_exactly_once_at_every_end"),
    "B42": Row("b:test_text_between_tools_is_told_apart_from_them_and_kept_in_order"),
}


def located(test: str) -> tuple[Path, str] | None:
    """Return a row's file and test; None for a row that is not applicable."""
    if test.startswith("n/a"):
        return None
    short, _, name = test.partition(":") if test[1] == ":" else ("", "", "")
    path, name = (FILES[short], name) if short else test.split("::")
    return ROOT / path, name


def rendered() -> str:
    """The table in Markdown."""
    lines = ["| vector | test | how a law or a choice changes it |", "|---|---|---|"]
    for ident in IDS:
        row = ROWS[ident]
        found = located(row.test)
        test = row.test if found is None else f"`{found[0].name}` `{found[1]}`"
        lines.append(f"| {ident} | {test} | {row.how} |")
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """A README with the table in its place."""
    head, _, rest = text.partition(START)
    return head + START + rendered() + END + rest.partition(END)[2]


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write("rendered tests/README.md\n")
