#!lua
-- submit: create a turn with its deadline and its request entry, unless it exists or a bound is reached.
-- KEYS  1 turn (hash)   2 requests (stream)   3 deadlines (zset)   4 admitted (hash)   5 turns (zset)   6 committed (hash)
--       7 serial (list)   8 parent turn, or the turn (hash)   9 shadow (zset)
-- ARGV  1 turn   2 tenant   3 tenant_limit   4 partition_limit   5 first_deadline_ms
--       6 serial_ms: how long the session's order is kept, 0 when it is not serial   7 parent turn, or empty
--       8 token of an external producer, or empty   9 shadow_ms: how long the index of shadow turns keeps it, 0 when it is live
--       then the record's fields and values
-- REPLY OK | ALREADY | TENANT_FULL | PARTITION_FULL | PARENT_UNKNOWN | PARENT_NOT_STARTED | FULL (memory)
-- CRASH before: the idempotency record alone stands, a repeat submits.  after: a repeat answers ALREADY.

-- include kinds
local wrong = wrong_kind({'hash', 'stream', 'zset', 'hash', 'zset', 'hash', 'list', 'hash', 'zset'})
if wrong then return wrong end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'ALREADY' end
if ARGV[7] ~= '' then -- what a child tells its parent follows the parent's own first event
  local parent = redis.call('HMGET', KEYS[8], 'tenant', 'tail')
  if parent[1] ~= ARGV[2] then return 'PARENT_UNKNOWN' end
  if not parent[2] then return 'PARENT_NOT_STARTED' end
end
local admitted = redis.call('HMGET', KEYS[4], ARGV[2], '*')
if (tonumber(admitted[1]) or 0) >= tonumber(ARGV[3]) then return 'TENANT_FULL' end
if (tonumber(admitted[2]) or 0) >= tonumber(ARGV[4]) then return 'PARTITION_FULL' end
if redis.call('HGET', KEYS[6], 'full') then return 'FULL' end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[8] == '' then
  redis.call('HSET', KEYS[1], 'entry', redis.call('XADD', KEYS[2], '*', 'turn', ARGV[1]))
else -- its producer holds it already: no ingest process takes it
  redis.call('HSET', KEYS[1], 'external_token', ARGV[8], 'ingest_epoch', 1, 'ingest_worker', 'external', 'claimed_at', now)
end
redis.call('HSET', KEYS[1], 'submitted_at', now, unpack(ARGV, 10))
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[5]), ARGV[1])
redis.call('HINCRBY', KEYS[4], ARGV[2], 1)
redis.call('HINCRBY', KEYS[4], '*', 1)
redis.call('ZADD', KEYS[5], now, ARGV[1])
if ARGV[9] ~= '0' then
  redis.call('ZADD', KEYS[9], now, ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', now - tonumber(ARGV[9]))
end
if ARGV[6] ~= '0' then
  redis.call('RPUSH', KEYS[7], ARGV[1])
  redis.call('PEXPIRE', KEYS[7], ARGV[6])
end
return 'OK'
