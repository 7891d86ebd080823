#!lua flags=allow-oom
-- request_cancel: flag a turn as cancelled; every renewal and publish says so, and after the grace the fold's owner ends it.
-- KEYS  1 turn (hash)   2 deadlines (zset)
-- ARGV  1 turn   2 grace_ms
-- REPLY OK | ALREADY | ENDED | UNKNOWN_TURN
-- CRASH before: nothing is flagged.  after: a repeat answers ALREADY.

-- include kinds
local wrong = wrong_kind({'hash', 'zset'})
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'id', 'ended', 'cancel')
if not turn[1] then return 'UNKNOWN_TURN' end
if turn[2] then return 'ENDED' end
if turn[3] then return 'ALREADY' end
local t = redis.call('TIME')
local at = t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[2])
redis.call('HSET', KEYS[1], 'cancel', 1, 'cancel_until', at)
redis.call('ZADD', KEYS[2], 'LT', at, ARGV[1])
return 'OK'
