import zlib
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.keys import KEY_TABLE, Keyspace, digest_of, make_turn_id, parse_turn_id

KEYS = Keyspace()
TURN = "7-0123456789abcdef01234567"


def test_a_sessions_partition_is_the_crc_of_its_utf8_text() -> None:
    assert KEYS.partition_of("жук") == zlib.crc32("жук".encode()) % 16


@given(st.integers(0, 99), st.binary(min_size=12, max_size=12))
def test_a_turns_id_carries_its_partition(partition: int, chance: bytes) -> None:
    turn = make_turn_id(partition, chance.hex())
    assert parse_turn_id(turn) == (partition, chance.hex())
    assert Keyspace(partitions=100).partition_of_turn(turn) == partition


@pytest.mark.parametrize(
    "turn", ["", "7", "7-", "07-" + "a" * 24, "7-" + "A" * 24, "7-" + "a" * 23, TURN + "\n", "-1-" + "a" * 24]
)
def test_what_is_no_turn_id_is_refused(turn: str) -> None:
    with pytest.raises(ValueError, match="not a turn id"):
        parse_turn_id(turn)


def test_an_id_is_made_of_hexadecimal_chance_only() -> None:
    with pytest.raises(ValueError, match="24 hexadecimal"):
        make_turn_id(7, "x" * 24)


def test_a_turn_of_more_partitions_than_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 4"):
        Keyspace(partitions=4).partition_of_turn(TURN)


@pytest.mark.parametrize("partitions", [0, 16385])
def test_the_number_of_partitions_is_bounded(partitions: int) -> None:
    with pytest.raises(ValueError, match="partitions"):
        Keyspace(partitions=partitions)


@pytest.mark.parametrize("prefix", ["", "a:b", "a{b}", "a b"])
def test_a_prefix_cannot_bring_a_hash_tag_of_its_own(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Keyspace(prefix=prefix)


def test_every_key_of_a_partition_carries_its_hash_tag() -> None:
    of_partition = [
        KEYS.requests, KEYS.log, KEYS.blocks, KEYS.committed, KEYS.inflight, KEYS.deadlines, KEYS.admitted, KEYS.turns, KEYS.sending,
        KEYS.due, KEYS.unknown, KEYS.dead, KEYS.lanes, KEYS.hint,
    ]  # fmt: skip
    names = [name(7) for name in of_partition]
    names += [KEYS.owner("fold", 7), KEYS.lane(7, "abc"), KEYS.turn(TURN), KEYS.entries(TURN), KEYS.frames(TURN)]
    names += [KEYS.block(TURN, 0), KEYS.parts(TURN), KEYS.part(f"{TURN}/0/aa/1")]
    assert all(name.startswith("fl:{7}:") for name in names)
    assert len(set(names)) == len(names)


def test_a_parts_key_is_its_id_with_colons() -> None:
    assert KEYS.part(f"{TURN}/0/aa/1") == f"fl:{{7}}:part:{TURN}:0:aa:1"


def test_keys_of_the_fleet_have_slots_of_their_own() -> None:
    assert (KEYS.meta, KEYS.api_keys, KEYS.workers("fold")) == ("fl:meta", "fl:keys", "fl:workers:fold")
    assert KEYS.budget("bot") == "fl:{rate:bot}"
    assert KEYS.idem("a", "bc") != KEYS.idem("ab", "c")


def test_a_digest_tells_where_one_word_ends() -> None:
    assert digest_of("a", "bc") != digest_of("ab", "c")
    assert len(digest_of("é")) == 40


def test_every_row_of_the_key_table_says_how_the_key_ends_and_what_bounds_it() -> None:
    for row in KEY_TABLE:
        assert row.key.startswith("fl:")
        assert row.kind
        assert row.holds
        assert row.owner
        assert row.ends
        assert row.bound


def test_every_key_of_the_fleet_and_of_a_turn_has_a_name_of_its_own() -> None:
    names = [KEYS.meta, KEYS.api_keys, KEYS.modes, KEYS.reports, KEYS.reports_aside, KEYS.workers("fold")]
    names += [KEYS.freed("fold"), KEYS.shadow(7), KEYS.serial(7, "s"), KEYS.late(7), KEYS.legacy(TURN)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("fl:") for name in names)


def test_a_key_of_a_turn_says_whose_it_is() -> None:
    part = f"{TURN}/0/aa/1"
    of_turn = [KEYS.turn(TURN), KEYS.entries(TURN), KEYS.frames(TURN), KEYS.block(TURN, 3), KEYS.parts(TURN)]
    for key in (*of_turn, KEYS.part(part), KEYS.legacy(TURN)):
        assert KEYS.turn_of_key(key) == TURN
    assert KEYS.part_of_key(KEYS.part(part)) == part
    assert (KEYS.turn_of_key(KEYS.log(7)), KEYS.part_of_key(KEYS.log(7))) == ("", "")


def test_patterns_find_what_they_are_of() -> None:
    assert fnmatchcase(KEYS.idem("acme", "k"), KEYS.all_idem())
    assert fnmatchcase(KEYS.turn(TURN), KEYS.all_of("turn", 7))
    assert fnmatchcase(KEYS.turn(TURN), KEYS.all_of("turn"))
    assert not fnmatchcase(KEYS.turn(TURN), KEYS.all_of("turn", 6))
