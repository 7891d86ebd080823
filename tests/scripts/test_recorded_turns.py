"""Recorded agents run as programs: a recording of ours comes out as its lines say, and one that says otherwise is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import recorded_turns

ASKED = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "t1", "title": "Edit", "kind": "edit", "status": "pending"},
    "options": [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ],
}


def client(**message: Any) -> dict[str, Any]:
    return {"from": "client", "msg": {"jsonrpc": "2.0", **message}}


def agent(**message: Any) -> dict[str, Any]:
    return {"from": "agent", "msg": {"jsonrpc": "2.0", **message}}


def said(text: str) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return agent(method="session/update", params={"sessionId": "s", "update": update})


GREETED = [
    client(id=1, method="initialize", params={}),
    agent(id=1, result={"protocolVersion": 1, "agentCapabilities": {}}),
    client(id=2, method="session/new", params={}),
    said("before the session"),
    agent(id=2, result={"sessionId": "s"}),
    said("Zero "),
    client(id=3, method="session/prompt", params={}),
]


def asked(outcome: dict[str, str]) -> list[dict[str, Any]]:
    """An agent that asks, under an id of ours, and tells what it was answered; then it is told to stop, and asked for another turn."""
    return [
        *GREETED,
        said("One "),
        agent(id=3, method="session/request_permission", params=ASKED),
        client(id=3, result={"outcome": outcome}),
        said("two."),
        client(method="session/cancel", params={"sessionId": "s"}),
        agent(id=3, result={"stopReason": "cancelled"}),
        client(id=4, method="session/prompt", params={}),
        said("another turn"),
    ]


def write(folder: Path, name: str, lines: list[dict[str, Any]]) -> None:
    (folder / f"{name}.both.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("outcome", "policy"),
    [
        ({"outcome": "selected", "optionId": "yes"}, "allow"),
        ({"outcome": "selected", "optionId": "no"}, "reject"),
        ({"outcome": "cancelled"}, "cancel"),
    ],
)
def test_a_recording_is_read_as_what_its_client_did(outcome: dict[str, str], policy: str) -> None:
    recording = recorded_turns.read(json.dumps(line) for line in asked(outcome))
    assert (recording.policy, recording.cancel_after, recording.prompt_id) == (policy, 4, 3)
    assert len(recording.said) == 5


async def test_a_played_agent_says_what_was_recorded_and_one_that_says_more_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "asks", asked({"outcome": "selected", "optionId": "no"}))
    monkeypatch.chdir(tmp_path.parent)  # a folder is named as a shell names it; the agents stand in another
    assert await recorded_turns.check(Path(tmp_path.name)) == {"asks.both.jsonl": []}
    monkeypatch.setattr(recorded_turns, "expected", lambda _: ["d 0.0 text 'One '"])
    assert (await recorded_turns.check(tmp_path))["asks.both.jsonl"]


def test_a_folder_without_recordings_is_no_success(tmp_path: Path) -> None:
    assert recorded_turns.main(tmp_path) == 1
