#!lua flags=allow-oom
-- forget_turn: remove everything else of a turn that is over: its entries in the log, frames, blocks, record. Called until it answers OK.
-- KEYS  1 turn (hash)   2 entries (list)   3 frames (stream)   4 parts (list)   5 legacy (hash)   6 log (stream)   7 committed (hash)
--       8 inflight (zset)   9 deadlines (zset)   10 turns (zset)   11 shadow (zset)   12 serial (list)   13 blocks (stream)   then blocks (hash)
-- ARGV  1 turn   2 the most log entries to remove now   3 whether these are the last blocks: 1 | 0
-- REPLY OK | MORE | RUNNING | PLANNING | PARTS (they are forgotten first)
-- CRASH before or between: the turn's record is the last to go, so a repeat finds the rest.  after: a repeat answers OK.

-- include kinds
-- include order
local kinds = {'hash', 'list', 'stream', 'list', 'hash', 'stream', 'hash', 'zset', 'zset', 'zset', 'zset', 'list', 'stream'}
for i = 14, #KEYS do kinds[i] = 'hash' end
local wrong = wrong_kind(kinds)
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'state', 'planned', 'blocks_next', 'open_parts')
if turn[1] == 'queued' or turn[1] == 'running' then return 'RUNNING' end
if turn[1] and turn[2] ~= turn[3] then return 'PLANNING' end
if (tonumber(turn[4]) or 0) > 0 then return 'PARTS' end
-- An entry that the fold has not passed is still counted as its lag.
local committed = redis.call('HMGET', KEYS[7], 'log', 'blocks')
local last = redis.call('LINDEX', KEYS[2], -1)
if last and is_before(committed[1] or '0-0', last) then return 'RUNNING' end

local ids = redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1)
for _, id in ipairs(ids) do redis.call('XDEL', KEYS[6], id) end
redis.call('LTRIM', KEYS[2], #ids, -1)
for i = 14, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[3] == '0' or redis.call('EXISTS', KEYS[2]) == 1 then return 'MORE' end
for i = 2, 5 do redis.call('UNLINK', KEYS[i]) end
for i = 8, 11 do redis.call('ZREM', KEYS[i], ARGV[1]) end
for _, entry in ipairs(redis.call('XRANGE', KEYS[13], '-', committed[2] or '0-0')) do -- planned, and not trimmed yet
  if entry[2][2] == ARGV[1] then redis.call('XDEL', KEYS[13], entry[1]) end
end
redis.call('LREM', KEYS[12], 0, ARGV[1])
redis.call('UNLINK', KEYS[1])
return 'OK'
