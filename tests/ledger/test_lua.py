import re

import pytest

from ledger import lua

SHEBANG = re.compile(r"#!lua( flags=(allow-oom|no-writes))?\n-- (\w+): ")
PRODUCERS = {"publish", "submit", "claim_idempotency", "report_sent"}
"""The scripts that a full server refuses, so that the others can empty it."""


@pytest.mark.parametrize("name", lua.names())
def test_a_script_says_what_it_answers(name: str) -> None:
    assert f"-- {name}: " in lua.source(name)
    assert "-- REPLY " in lua.source(name)


@pytest.mark.parametrize("name", [name for name in lua.names() if lua.source(name).startswith("#!")])
def test_only_producers_are_refused_by_a_full_server(name: str) -> None:
    match = SHEBANG.match(lua.source(name))
    assert match is not None
    assert match[3] == name
    assert (match[2] is None) == (name in PRODUCERS)


@pytest.mark.parametrize("name", lua.names())
def test_a_script_builds_no_key(name: str) -> None:
    for call in re.finditer(r"redis\.p?call\('(\w+)', ([^,)]+)", lua.source(name)):
        if call[1] not in {"TIME", "INFO", "XGROUP", "XINFO", "XREADGROUP"}:
            assert re.match(r"KEYS\[|key\b|turn\b|block\b|part\b|lane\b", call[2]), call[0]


def test_pieces_are_put_in_where_they_are_named() -> None:
    assert "-- include" not in lua.source("publish")
    assert "local function wrong_kind" in lua.source("publish")
    assert "shared" not in lua.names()
