#!lua flags=allow-oom
-- release_turn: give the claim of a turn up at once. Its entry becomes old enough to be handed out as abandoned.
-- KEYS  1 turn (hash)   2 requests (stream, group ingest)
-- ARGV  1 token
-- REPLY OK | UNKNOWN_TURN | STALE | ENDED
-- CRASH before: the lease runs out.  after: a repeat answers OK.
local turn = redis.call('HMGET', KEYS[1], 'id', 'ingest_token', 'ended', 'ingest_released', 'ingest_worker', 'entry')
if not turn[1] then return 'UNKNOWN_TURN' end
if turn[4] == ARGV[1] then return 'OK' end
if turn[2] ~= ARGV[1] then return 'STALE' end
if turn[3] then return 'ENDED' end
redis.pcall('XCLAIM', KEYS[2], 'ingest', turn[5], 0, turn[6], 'IDLE', 86400000, 'JUSTID') -- a day: more than any min_idle
redis.call('HSET', KEYS[1], 'ingest_token', '', 'ingest_released', ARGV[1], 'ingest_lease_until', 0)
return 'OK'
