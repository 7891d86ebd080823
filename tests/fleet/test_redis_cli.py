"""Every command of ARCHITECTURE.md's "Looking with redis-cli" is run, and its answer held against a known turn."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.fleet.crashing import FIRST_GATE, stage
from tests.support.fleet import ROOT
from tests.support.servers import Server, server_binary

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


NOTHING = (
    "what is being sent now",
    "what waits for a retry",
    "what does nobody know",
    "what was given up",
    "what was settled late",
    "what did a child tell",
    "which turns are shadowed",
    "which runtimes are switched",
    "what did the other path send",
    "which reports of it were put aside",
)
"""Questions to which a turn that was carried and delivered undisturbed answers nothing."""


def documented() -> dict[str, str]:
    """Question to command, as the page has them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## Looking with redis-cli")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", section, flags=re.MULTILINE)
    return {question.strip(): command for question, command in rows}


def ask(server: Server, command: str, turn: str, part: str) -> list[str]:
    """Run one command as an operator would."""
    partition = turn.split("-", maxsplit=1)[0]
    words = command.replace("{P}", f"{{{partition}}}").replace("TURN", turn).replace("PART", part).split()
    done = subprocess.run(
        [server_binary("redis-cli"), "-p", str(server.port), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return done.stdout.rstrip("\n").split("\n")


async def test_what_the_page_tells_an_operator_to_type_shows_what_it_says(redis_server: Server, tmp_path: Path) -> None:
    commands = documented()
    said: dict[str, list[str]] = {}
    async with stage(redis_server, tmp_path) as s:
        s.upstream.pause_before(FIRST_GATE)
        for role in ("ingest", "fold", "delivery"):
            await s.fleet.start(role)
        turn = await s.submit()
        await s.fleet.framed(turn, FIRST_GATE)

        def look() -> dict[str, list[str]]:
            return {question: ask(redis_server, command, turn, part) for question, command in commands.items()}

        part = "none"
        running = look()
        s.upstream.release()
        await s.told(turn)
        record = await s.fleet.turn(turn)
        part = (await s.fleet.parts(turn))[0].id.replace("/", ":")
        said = look()

    assert running["which turns run in a partition"][0] == turn
    assert running["what is submitted and not ended"][0] == "1"
    assert running["what became of a turn"][:3] == ["running", "", str(FIRST_GATE)]
    worker, token, lease, published = running["who ingests a turn"]
    assert worker.startswith("ingest-")
    assert token.startswith("1:")
    assert int(lease) > 1_700_000_000_000
    assert int(published) == FIRST_GATE + 1
    assert running["when is a turn ended by name"][0] == turn
    assert said["which turns run in a partition"] == [""]
    assert said["what is submitted and not ended"][0] == "0"
    frames, blocks = str(record.frames_next), str(record.blocks_next)
    assert said["what became of a turn"] == ["completed", "turn_completed", frames, blocks, blocks, "0"]
    assert said["why a turn failed"] == [""]
    for role in ("fold", "delivery"):
        owner = said[f"who owns a partition's {role}"]
        fields = dict(zip(owner[::2], owner[1::2], strict=True))
        assert fields["worker"].startswith(f"{role}-")
        assert fields["token"].startswith(f"{fields['epoch']}:")
        assert int(fields["lease_until"]) > 1_700_000_000_000
    assert said["which workers live"][0].startswith("fold-")
    position, published, folded = said["how far is the fold"]
    assert published == folded
    assert said["which entries are a turn's"][-1] == position
    assert "turn_started" in "\n".join(said["what did the upstream say"])
    assert "response.created" in "\n".join(said["what was the client told"])
    block = said["what is a block's text"]
    assert any("Paragraph 0" in line for line in block)
    assert said["which deliveries has a turn"][0].startswith(f"{turn}/0/")
    state, _, attempts, *_ = said["was a part sent"]
    assert state == "sent"
    assert int(attempts) >= 1
    for question in NOTHING:
        assert said[question] == [""]
    schema = said["what does the schema say"]
    assert dict(zip(schema[::2], schema[1::2], strict=True))["partitions"] == str(s.fleet.keys.partitions)
    assert set(commands) == set(said)
