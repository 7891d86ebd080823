"""Faults in the scripts that run on the server."""

from scripts.mutants.mutant import Mutant

LOG = "tests/ledger/test_log.py"
TAKING = "tests/ledger/test_log_taking.py"
COMMITTING = "tests/ledger/test_log_committing.py"
OWNERSHIP = "tests/ledger/test_ownership.py"
DELIVERY = "tests/ledger/test_delivery.py"
WORDS = "tests/ledger/test_delivery_words.py"
PLANNING = "tests/ledger/test_planning.py"
TURNS = "tests/ledger/test_turns.py"
DEADLINES = "tests/ledger/test_deadlines.py"
RETENTION = "tests/ledger/test_retention.py"
FORGETTING = "tests/ledger/test_forgetting.py"
LATE = "tests/ledger/test_late.py"

MUTANTS = (
    Mutant(
        name="ack before commit",
        breaks="the position moves with the effects, not before them",
        path="ledger/lua/take_log.lua",
        edits=(("'taken', entries[#entries][1])", "'taken', entries[#entries][1], 'log', entries[#entries][1])"),),
        tests=(TAKING,),
    ),
    Mutant(
        name="publish without token check",
        breaks="a producer that was replaced adds nothing",
        path="ledger/lua/publish.lua",
        edits=(("if ARGV[2] == '' or turn[2] ~= ARGV[2] then", "if false then"),),
        tests=(LOG,),
    ),
    Mutant(
        name="commit without token check",
        breaks="an owner that was replaced commits nothing",
        path="ledger/lua/commit.lua",
        edits=(("if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then", "if false then"),),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="intent without token check",
        breaks="an owner that was replaced begins no attempt",
        path="ledger/lua/intent.lua",
        edits=(("if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then", "if false then"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="plan without token check",
        breaks="an owner that was replaced plans nothing",
        path="ledger/lua/plan.lua",
        edits=(("if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then", "if false then"),),
        tests=(PLANNING,),
    ),
    Mutant(
        name="no seq check",
        breaks="a gap in a producer's numbers is refused",
        path="ledger/lua/publish.lua",
        edits=(("if first > next then return", "if false then return"),),
        tests=(LOG,),
    ),
    Mutant(
        name="overlap appended",
        breaks="a batch that overlaps what is stored is sliced by its producer, never stored twice",
        path="ledger/lua/publish.lua",
        edits=(("if first < next then return {'OVERLAP'", "if false then return {'OVERLAP'"),),
        tests=(LOG,),
    ),
    Mutant(
        name="same number, other content",
        breaks="a repeat with other content is refused",
        path="ledger/lua/publish.lua",
        edits=(("if first < next and not is_stored(ARGV[3], first, next, ARGV[6]) then", "if false then"),),
        tests=(LOG,),
    ),
    Mutant(
        name="terminal does not end",
        breaks="after the first terminal nothing is accepted",
        path="ledger/lua/shared/append.lua",
        edits=(("redis.call('HSET', KEYS[1], 'ended', terminal)", ""),),
        tests=(LOG,),
    ),
    Mutant(
        name="idle without a look at the tail",
        breaks="no idle event follows a delta that it did not know",
        path="ledger/lua/append_if_tail.lua",
        edits=(("if (turn[5] or '') ~= ARGV[3] then", "if false then"),),
        tests=(LOG,),
    ),
    Mutant(
        name="commit without prev",
        breaks="a commit goes on from the position that it was folded from",
        path="ledger/lua/commit.lua",
        edits=(("if position ~= ARGV[2] then", "if false then"),),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="commit repeated is refused",
        breaks="a repeat of a commit whose reply was lost answers ALREADY",
        path="ledger/lua/commit.lua",
        edits=(("committed[2] == ARGV[4] then return {'ALREADY', ''}", "false then return {'ALREADY', ''}"),),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="frames_next unchecked",
        breaks="frames are numbered without gap or repeat",
        path="ledger/lua/commit.lua",
        edits=(
            ("if stored[3] ~= ARGV[a + 1] then", "if false then"),
            ("if top and top[1] ~= one.frames_next .. '-0' then", "if false then"),
        ),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="blocks_next unchecked",
        breaks="blocks are numbered without gap or repeat",
        path="ledger/lua/commit.lua",
        edits=(
            ("if stored[4] ~= ARGV[a + 4] then", "if false then"),
            ("if redis.call('EXISTS', KEYS[one.key + 5 + i]) == 1 then", "if false then"),
        ),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="raise ignores the lease",
        breaks="nobody takes a partition whose lease still runs",
        path="ledger/lua/raise.lua",
        edits=(("if remaining > 0 then", "if false then"),),
        tests=(OWNERSHIP,),
    ),
    Mutant(
        name="lease by TTL",
        breaks="the owner's record never expires: its epoch only grows",
        path="ledger/lua/raise.lua",
        edits=(
            (
                "'seen', position, 'idle_raises', idle)",
                "'seen', position, 'idle_raises', idle)\n  redis.call('PEXPIRE', KEYS[1], ARGV[3])",
            ),
        ),
        tests=(OWNERSHIP,),
    ),
    Mutant(
        name="claim ignores the lease",
        breaks="nobody takes a turn whose claim still runs",
        path="ledger/lua/claim_turn.lua",
        edits=(("if (tonumber(turn[5]) or 0) > now then", "if false then"),),
        tests=(TURNS,),
    ),
    Mutant(
        name="claim renewed without its token",
        breaks="a sleeper does not take its claim back from its successor",
        path="ledger/lua/renew_turn.lua",
        edits=(("if turn[2] ~= ARGV[1] then", "if false then"),),
        tests=(TURNS,),
    ),
    Mutant(
        name="idempotency key without its body",
        breaks="a key stands for one request alone",
        path="ledger/lua/claim_idempotency.lua",
        edits=(("bound[3] == ARGV[3] and 'SAME' or 'CONFLICT'", "'SAME'"),),
        tests=(TURNS,),
    ),
    Mutant(
        name="key window ignored",
        breaks="a part is not repeated by a key that the receiver may have forgotten",
        path="ledger/lua/intent.lua",
        edits=(("if p[7] and now + tonumber(ARGV[10]) >= tonumber(p[7]) + tonumber(ARGV[9]) then", "if false then"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="lane head unchecked",
        breaks="within a lane, parts are sent in their order",
        path="ledger/lua/intent.lua",
        edits=(("if redis.call('LINDEX', KEYS[3], 0) ~= ARGV[2] then", "if false then"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="body hash unchecked",
        breaks="the same id never goes out with another body",
        path="ledger/lua/intent.lua",
        edits=(("if p[6] ~= ARGV[4] then", "if false then"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="reattempt inside the quarantine",
        breaks="an older owner's attempt is repeated only when its request cannot be on its way any more",
        path="ledger/lua/intent.lua",
        edits=(("if now < tonumber(p[3]) + tonumber(ARGV[8]) then", "if false then"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="late receipt of an older attempt ignored",
        breaks="a duplicate is detected and recorded",
        path="ledger/lua/receipt.lua",
        edits=(("  if verdict ~= 'sent' then\n", "  do\n"),),
        tests=(DELIVERY,),
    ),
    Mutant(
        name="not-sent believed inside the quarantine",
        breaks="until the quarantine is over, nobody's 'not sent' is believed",
        path="ledger/lua/advance.lua",
        edits=(("if p[2] and now < tonumber(p[2]) + tonumber(ARGV[6]) then", "if false then"),),
        tests=(DELIVERY, WORDS),
    ),
    Mutant(
        name="a planned part planned again",
        breaks="a part is created once, whatever it has come to since",
        path="ledger/lua/plan.lua",
        edits=(("if redis.call('EXISTS', part) == 0 then", "if true then"),),
        tests=(PLANNING,),
    ),
    Mutant(
        name="waiting counts as silence",
        breaks="a turn that we keep waiting is not silent",
        path="ledger/lua/check_deadline.lua",
        edits=(("local held = math.max(since, number('waited_at'))", "local held = since"),),
        tests=(DEADLINES,),
    ),
    Mutant(
        name="trim past a turn in flight",
        breaks="what a take-over must read is kept",
        path="ledger/lua/trim.lua",
        edits=(("if oldest[1] and tonumber(oldest[2]) <= low_ms then", "if false then"),),
        tests=(RETENTION,),
    ),
    Mutant(
        name="a lost group made anew at the beginning",
        breaks="a block that was planned is never given out again",
        path="ledger/lua/take_blocks.lua",
        edits=(
            (
                "redis.call('XGROUP', 'CREATE', KEYS[3], ARGV[2], position, 'MKSTREAM')",
                "redis.call('XGROUP', 'CREATE', KEYS[3], ARGV[2], '0', 'MKSTREAM')",
            ),
        ),
        tests=(PLANNING,),
    ),
    Mutant(
        name="a request kept behind its turn's end",
        breaks="what was asked goes with the end",
        path="ledger/lua/commit.lua",
        edits=(("    redis.call('HDEL', turn, 'request')", "    redis.call('HDEL', turn, 'nothing')"),),
        tests=(COMMITTING,),
    ),
    Mutant(
        name="purge of what is not settled",
        breaks="what still owes something is not purged",
        path="ledger/lua/purge_part.lua",
        edits=(("if p[2] == '1' or not string.find(ARGV[2], ',' .. p[1] .. ',', 1, true) then", "if false then"),),
        tests=(FORGETTING,),
    ),
    Mutant(
        name="forgetting what may be on its way",
        breaks="an attempt is forgotten once nobody can still be making it",
        path="ledger/lua/forget_parts.lua",
        edits=(("if p[1] == 'sending' and now < (tonumber(p[3]) or 0) + tonumber(ARGV[1]) then", "if false then"),),
        tests=(FORGETTING,),
    ),
    Mutant(
        name="late settlement not marked",
        breaks="what is settled after its lane went on is marked as late",
        path="ledger/lua/receipt.lua",
        edits=(("  if p[7] then\n", "  if false then\n"),),
        tests=(LATE,),
    ),
)
