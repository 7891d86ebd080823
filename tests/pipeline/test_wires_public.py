"""Any stream of a wire without response objects comes out as a Responses stream: the official SDK reads it, our own strict
decoder accepts it, and it says what the upstream said.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import TextDelta
from pipeline.turn import Decoded, Validation, decode
from tests.pipeline.normalize import acp_lines as agent
from tests.pipeline.normalize import gemini_streams as gemini
from tests.pipeline.streams import RESPONSE, TURN, accumulate, data_of, text_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RECORDED = [
    *(path for wire in ("chat", "messages", "gemini") for path in GOLDEN.glob(f"{wire}/*.sse")),
    *(path for path in GOLDEN.glob("acp/*.jsonl") if path.stem.count(".") == 0),
]


def check(wire: str, data: bytes) -> Decoded:
    """Decode a body and hold its public stream against all that a public stream keeps."""
    decoded = decode([data], wire, turn=TURN)
    frames = data_of(decoded.frames)
    types = [frame["type"] for frame in frames]
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert types[0] == "response.created"
    assert types[-1] in {"response.completed", "response.incomplete", "response.failed"}
    assert all(frame["response"]["id"] == RESPONSE for frame in frames if "response" in frame)
    response = accumulate(decoded.frames)
    spoken = "".join(one.text for one in decoded.events if isinstance(one, TextDelta) and one.track == "text")
    assert text_of(decoded.blocks) == spoken
    if types[-1] == "response.completed":
        assert response.output_text == spoken
    again = decode([frame.sse.encode() for frame in decoded.frames], "responses", Validation.STRICT, turn=TURN)
    assert data_of(again.frames) == frames
    return decoded


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_golden_streams(path: Path) -> None:
    check(path.parent.name, path.read_bytes())


def output(wire: str, data: bytes) -> list[dict[str, Any]]:
    made = check(wire, data).payload.response["output"]
    return [{name: value for name, value in item.items() if name != "id"} for item in made]


def test_a_function_call_is_the_clients_to_answer() -> None:
    assert output("gemini", gemini.body(gemini.chunk(gemini.call("f", args={"a": 1}, id="c1")), gemini.STOP)) == [
        {"type": "function_call", "status": "completed", "name": "f", "arguments": '{"a":1}', "call_id": "c1"}
    ]


def test_what_the_upstream_ran_is_shown_with_its_output() -> None:
    parts = ({"executableCode": {"code": "1+1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}})
    assert output("gemini", gemini.body(gemini.chunk(*parts), gemini.STOP)) == [
        {
            "type": "code_interpreter_call",
            "status": "completed",
            "code": "1+1",
            "container_id": "",
            "outputs": [{"type": "logs", "logs": "2"}],
        }
    ]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("completed", {"status": "completed", "output": "a\nb", "error": None}),
        ("failed", {"status": "failed", "output": None, "error": "a\nb"}),
    ],
)
def test_an_agents_tool_is_a_call_that_somebody_else_ran(status: str, shown: dict[str, Any]) -> None:
    blocks = [{"type": "content", "content": {"type": "text", "text": text}} for text in "ab"]
    data = agent.lines(agent.tool(title="ls", rawInput={"x": 1}, status=status, content=blocks), agent.END)
    assert output("acp", data) == [
        {"type": "mcp_call", "name": "ls", "server_label": "upstream", "arguments": '{"x":1}'} | shown
    ]


def test_the_upstreams_own_id_travels_beside() -> None:
    decoded = check(
        "gemini", gemini.body(gemini.chunk({"text": "x"}, finish="STOP", responseId="g1", modelVersion="m"))
    )
    assert (decoded.payload.upstream_id, decoded.payload.response["model"]) == ("g1", "m")


def test_a_cancelled_prompt_ends_incomplete() -> None:
    decoded = check("acp", agent.lines(agent.said("a"), agent.stop("cancelled")))
    assert decoded.payload.status == "cancelled"
    assert decoded.payload.response["incomplete_details"] == {"reason": "cancelled"}


WORDS = st.sampled_from(["a", "b c ", "\n\n", "```\n", "ü🌍"])
CHUNKS: dict[str, st.SearchStrategy[Any]] = {
    "gemini": st.one_of(
        WORDS.map(lambda text: gemini.chunk({"text": text})),
        WORDS.map(lambda text: gemini.chunk({"text": text, "thought": True})),
        st.sampled_from("fg").map(lambda name: gemini.chunk(gemini.call(name, args={"a": 1}))),
        st.sampled_from("fg").map(lambda name: gemini.chunk(gemini.call(name, args={}, id="same"))),
        st.just(gemini.chunk(gemini.call("f", willContinue=True))),
        st.just(gemini.chunk(gemini.call())),
        st.just(gemini.chunk({"executableCode": {"code": "1"}})),
        st.just(gemini.chunk({"codeExecutionResult": {"output": "1"}})),
        st.just(gemini.chunk({"toolCall": {"toolType": "T", "args": {}, "id": "t"}})),
        st.just(gemini.chunk({"toolResponse": {"response": {"a": 1}, "id": "t"}})),
        st.just(gemini.chunk({"inlineData": {"mimeType": "image/png", "data": "QQ=="}})),
        st.sampled_from(["STOP", "SAFETY", "MALFORMED_FUNCTION_CALL"]).map(lambda finish: gemini.chunk(finish=finish)),
        st.just({"error": {"code": 500, "message": "x"}}),
        st.just("noise"),
    ),
    "acp": st.one_of(
        st.builds(agent.said, WORDS),
        st.builds(agent.thought, WORDS),
        st.builds(agent.said, WORDS, messageId=st.sampled_from(["m1", "m2"])),
        st.builds(agent.tool, st.sampled_from(["k1", "k2"]), title=WORDS, rawInput=st.just({"a": 1})),
        st.builds(
            agent.tool,
            st.sampled_from(["k1", "k2"]),
            st.just("tool_call_update"),
            status=st.sampled_from(["in_progress", "completed", "failed"]),
            rawOutput=st.just({"b": 1}),
        ),
        st.builds(agent.asks, st.sampled_from(["k1", "k2"]), title=WORDS),
        st.builds(agent.stop, st.sampled_from(["end_turn", "cancelled", "refusal"])),
        st.just(agent.update("plan", entries=[])),
        st.just("noise"),
    ),
}
BODIES: dict[str, Callable[..., bytes]] = {"gemini": gemini.body, "acp": agent.lines}


@pytest.mark.parametrize("wire", CHUNKS)
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_stream(wire: str, data: st.DataObject) -> None:
    check(wire, BODIES[wire](*data.draw(st.lists(CHUNKS[wire], max_size=12))))
