"""`foldline decode`: the core alone, on recorded bytes, with its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pipeline.output import Block
from scripts.responses_stream import FunctionCall, Item, Text, compose, cut, sse
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


def test_a_file_that_is_not_there_is_an_error() -> None:
    assert "decode" in decode("/no/such/file", "--wire", "responses", "--events", code=1).stderr


def test_a_body_is_cut_into_chunks_of_the_size() -> None:
    assert list(chunks(b"abcde", 2)) == [b"ab", b"cd", b"e"]
    assert list(chunks(b"abcde", 0)) == [b"abcde"]


def test_markers_are_printed_where_there_are_any() -> None:
    assert block_line(Block(ordinal=0, text="x", markers={"note": "cut"}))["markers"] == {"note": "cut"}
