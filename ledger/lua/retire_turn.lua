#!lua flags=allow-oom
-- retire_turn: give a turn's keys their time to live when it has ended, every block is planned and no part is open.
-- KEYS  1 turn (hash)   2 entries (list)   3 frames (stream)   4 parts (list)
-- ARGV  1 retention_ms
-- REPLY OK | ALREADY | OPEN | UNKNOWN_TURN
-- CRASH before: the settling operation that is repeated asks again.  after: a repeat answers ALREADY and prolongs nothing.
local turn = redis.call('HMGET', KEYS[1], 'state', 'planned', 'blocks_next', 'open_parts')
if not turn[1] then return 'UNKNOWN_TURN' end
if turn[1] == 'queued' or turn[1] == 'running' then return 'OPEN' end
if turn[2] ~= turn[3] or tonumber(turn[4]) > 0 then return 'OPEN' end
if redis.call('PTTL', KEYS[1]) >= 0 then return 'ALREADY' end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
return 'OK'
