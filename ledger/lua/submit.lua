#!lua
-- submit: create a turn with its deadline and its request entry, unless it exists or a bound is reached.
-- KEYS  1 turn (hash)   2 requests (stream)   3 deadlines (zset)   4 admitted (hash)   5 turns (zset)   6 committed (hash)
--       7 serial (list)
-- ARGV  1 turn   2 tenant   3 tenant_limit   4 partition_limit   5 first_deadline_ms
--       6 serial_ms: how long the session's order is kept, 0 when it is not serial   then the record's fields and values
-- REPLY OK | ALREADY | TENANT_FULL | PARTITION_FULL | FULL (memory)
-- CRASH before: the idempotency record alone stands, a repeat submits.  after: a repeat answers ALREADY.

-- include kinds
local wrong = wrong_kind({'hash', 'stream', 'zset', 'hash', 'zset', 'hash', 'list'})
if wrong then return wrong end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'ALREADY' end
local admitted = redis.call('HMGET', KEYS[4], ARGV[2], '*')
if (tonumber(admitted[1]) or 0) >= tonumber(ARGV[3]) then return 'TENANT_FULL' end
if (tonumber(admitted[2]) or 0) >= tonumber(ARGV[4]) then return 'PARTITION_FULL' end
if redis.call('HGET', KEYS[6], 'full') then return 'FULL' end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local entry = redis.call('XADD', KEYS[2], '*', 'turn', ARGV[1])
redis.call('HSET', KEYS[1], 'entry', entry, 'submitted_at', now, unpack(ARGV, 7))
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[5]), ARGV[1])
redis.call('HINCRBY', KEYS[4], ARGV[2], 1)
redis.call('HINCRBY', KEYS[4], '*', 1)
redis.call('ZADD', KEYS[5], now, ARGV[1])
if ARGV[6] ~= '0' then
  redis.call('RPUSH', KEYS[7], ARGV[1])
  redis.call('PEXPIRE', KEYS[7], ARGV[6])
end
return 'OK'
