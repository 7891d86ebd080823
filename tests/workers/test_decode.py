"""`foldline decode`: the core alone, on recorded bytes, with its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pipeline.events import FOLD_VERSION
from pipeline.output import Block
from scripts.responses_stream import FunctionCall, Item, Text, compose, cut, sse
from tests.pipeline.project.answers import GOLDEN
from workers.cli import ROLES, run_role
from workers.commands.decode import block_line, chunks
from workers.commands.index import build

TEXT = "One paragraph.\n\nAnother, with a word like é and 😀."


def recorded(*items: Item) -> bytes:
    return b"".join(sse(event) for event in compose({"input": "x"}, items or (Text(pieces=cut(TEXT, 9)),)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recorded.sse"
    path.write_bytes(recorded())
    return path


def decode(*arguments: str, code: int = 0, given: bytes | None = None) -> Result:
    result = CliRunner().invoke(build(run_role, ROLES), ["decode", *arguments], input=given)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_events_are_one_json_object_a_line_numbered_from_the_start(file: Path) -> None:
    events = lines(decode(str(file), "--wire", "responses", "--events"))
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "turn_completed"
    assert "".join(str(event["text"]) for event in events if event["type"] == "text_delta") == TEXT


def test_events_read_back_as_the_canonical_wire_give_the_same_frames(file: Path) -> None:
    events = decode(str(file), "--wire", "responses", "--events").stdout
    again = decode("-", "--wire", "canonical", "--frames", given=events.encode())
    assert again.stdout == decode(str(file), "--wire", "responses", "--frames").stdout


def test_frames_are_a_stream_that_the_strict_decoder_accepts(file: Path) -> None:
    frames = decode(str(file), "--wire", "responses", "--frames").stdout
    again = decode("-", "--wire", "responses", "--strict", "--frames", given=frames.encode())
    assert again.stdout == frames


def test_blocks_put_together_are_the_text(file: Path) -> None:
    blocks = lines(decode(str(file), "--wire", "responses", "--blocks"))
    assert "".join(f"{block['text']}{block['separator']}" for block in blocks) == TEXT
    assert list(blocks[0]) == ["block", "opener", "text", "closer", "separator"]


def test_the_payload_is_the_final_response(file: Path) -> None:
    payload = lines(decode(str(file), "--wire", "responses", "--payload"))
    assert payload[0]["status"] == "completed"


@pytest.mark.parametrize("view", ["--events", "--frames", "--blocks", "--payload"])
def test_the_size_of_the_chunks_changes_nothing(file: Path, view: str) -> None:
    whole = decode(str(file), "--wire", "responses", view).stdout
    for size in ("1", "7", "64"):
        assert decode(str(file), "--wire", "responses", view, "--chunk-bytes", size).stdout == whole


def test_standard_input_is_read_for_a_dash() -> None:
    given = recorded(FunctionCall(name="look", pieces=cut('{"at": 1}', 3)))
    payload = lines(decode("-", "--wire", "responses", "--payload", given=given))
    assert json.loads(json.dumps(payload[0]["output"]))[0]["arguments"] == '{"at": 1}'


def test_a_refused_stream_gives_one_json_diagnostic_on_stderr_and_code_2() -> None:
    broken = b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta"}\n\n'
    result = decode("-", "--wire", "responses", "--strict", "--frames", code=2, given=broken)
    assert result.stdout == ""
    diagnostic = json.loads(result.stderr)
    assert {"code", "path", "expected", "found"} <= set(diagnostic)


def test_exactly_one_view_must_be_chosen(file: Path) -> None:
    decode(str(file), "--wire", "responses", code=2)
    decode(str(file), "--wire", "responses", "--events", "--frames", code=2)


def test_a_wire_that_nobody_speaks_is_refused(file: Path) -> None:
    decode(str(file), "--wire", "morse", "--events", code=2)


def test_a_body_is_cut_into_chunks_of_the_size() -> None:
    assert list(chunks(b"abcde", 2)) == [b"ab", b"cd", b"e"]
    assert list(chunks(b"abcde", 0)) == [b"abcde"]


def test_markers_are_printed_where_there_are_any() -> None:
    assert block_line(Block(ordinal=0, text="x", markers={"note": "cut"}))["markers"] == {"note": "cut"}


def canonical(*texts: tuple[int, str], begins: int = 0) -> bytes:
    events: list[dict[str, object]] = [
        {"type": "text_delta", "seq": number, "at": at, "item": 0, "content": 0, "track": "text", "text": text}
        for number, (at, text) in enumerate(texts, begins)
    ]
    ends = {"type": "turn_completed", "seq": begins + len(events), "at": events[-1]["at"], "outcome": "completed"}
    events.append(ends)
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_settings_of_the_turn_are_given_by_name() -> None:
    given = canonical((0, "First block line\n\nSecond block line"))
    options = ("--set", "min_chars=5", "--set", "max_chars=25")
    blocks = lines(decode("-", "--wire", "canonical", "--blocks", *options, given=given))
    assert [block["text"] for block in blocks] == ["First block line", "Second block line"]


def test_gaps_between_times_are_silences_when_asked_for() -> None:
    given = canonical((0, "short"), (900, " and "), (1000, "long enough"), (1200, " again"), (1900, " later"))
    options = ("--set", "min_chars=10", "--set", "idle_ms=500")
    blocks = lines(decode("-", "--wire", "canonical", "--blocks", "--idle", *options, given=given))
    assert [block["text"] for block in blocks] == ["short and long enough again", " later"]
    whole = lines(decode("-", "--wire", "canonical", "--blocks", *options, given=given))
    assert len(whole) == 1


def test_a_channels_parts_are_printed_with_their_numbers() -> None:
    given = canonical((0, "alpha beta。gamma delta"))
    parts = lines(decode("-", "--wire", "canonical", "--project", "discord", "--set", "limit=13", given=given))
    assert parts == [
        {"block": 0, "part": 0, "text": "alpha"},
        {"block": 0, "part": 1, "text": " beta。gamma"},
        {"block": 0, "part": 2, "text": " delta"},
    ]


def test_a_body_that_is_json_is_shown_and_printed() -> None:
    given = canonical((0, "**bold**"))
    (part,) = lines(decode("-", "--wire", "canonical", "--project", "matrix", given=given))
    assert part["text"] == "bold"
    assert part["body"]["formatted_body"] == "<p><strong>bold</strong></p>"  # type: ignore[index]  # an object


@pytest.mark.parametrize("channel", ["discord", "slack", "telegram", "matrix", "webhook", "console"])
def test_a_text_in_small_deltas_becomes_the_same_messages_under_every_runtime(channel: str) -> None:
    text = (GOLDEN / "tables.md").read_text(encoding="utf-8") + (GOLDEN / "code.md").read_text(encoding="utf-8")
    made = set()
    for runtime in ("main", "subagent", "acp"):
        started = {"type": "turn_started", "seq": 0, "at": 0, "contract": 1, "fold": FOLD_VERSION, "runtime": runtime}
        started |= {"wire": "canonical", "turn": "3-0123456789abcdef01234567", "session": "s"}
        rest = canonical(*((10, text[at : at + 3]) for at in range(0, len(text), 3)), begins=1)
        given = json.dumps(started).encode() + b"\n" + rest
        made.add(json.dumps(lines(decode("-", "--wire", "canonical", "--project", channel, given=given))))
    (told,) = made
    assert len(json.loads(told)) > 5


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("limit=10", "limit=10: console gets every block whole, and has no limit"),
        ("max_lines=3", "max_lines=3: console gets every block whole, and has no max_lines"),
        ("speed=1", "settings.speed = 1: unknown key; settings are min_chars, max_chars"),
        ("min_chars=many", "settings.min_chars = 'many': a number from 1 to 1000000 is expected"),
        ("break=page", "settings.break = 'page': one of paragraph, newline, sentence is expected"),
    ],
)
def test_what_is_refused_is_named(option: str, said: str) -> None:
    result = decode(
        "-", "--wire", "canonical", "--project", "console", "--set", option, given=canonical((0, "x")), code=2
    )
    assert said in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--blocks", "--set", "speed=1"),
        ("--blocks", "--set", "min_chars=many"),
        ("--blocks", "--set", "limit=10"),
        ("--project", "discord", "--set", "limit=0"),
        ("--project", "console", "--set", "limit=10"),
        ("--project", "smoke"),
        ("--project", "discord", "--blocks"),
    ],
)
def test_what_cannot_be_set_is_refused(options: tuple[str, ...]) -> None:
    decode("-", "--wire", "canonical", *options, given=canonical((0, "x")), code=2)


def test_the_settings_in_force_are_printed_with_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foldline.toml").write_text("[streaming.runtime.acp]\nmax_chars = 900\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["settings", "--runtime", "acp", "--channel", "discord", "--set", "idle_ms=5", "--json"]
    result = CliRunner().invoke(build(run_role, ROLES), arguments)
    rows = {row["key"]: row for row in json.loads(result.stdout)}
    assert (rows["max_chars"]["value"], rows["max_chars"]["source"]) == (900, "streaming.runtime.acp (foldline.toml)")
    assert (rows["idle_ms"]["value"], rows["idle_ms"]["source"]) == (5, "settings")
    assert rows["min_chars"] == {"key": "min_chars", "value": 800, "source": "default", "said": None}


@pytest.mark.parametrize("options", [("--runtime", "own"), ("--channel", "x"), ("--target", "gone"), ("--set", "x=1")])
def test_settings_of_what_is_not_there_are_refused(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(build(run_role, ROLES), ["settings", *options]).exit_code == 2
