#!lua flags=allow-oom
-- note_wait: a turn's external producer was told to come again later: the time until then is no silence of its.
-- KEYS  1 turn (hash)
-- ARGV  1 token
-- REPLY OK | UNKNOWN_TURN | STALE | ENDED
-- CRASH before: the producer is told again when it comes again.  after: a repeat notes a later time.

-- include kinds
local wrong = wrong_kind({'hash'})
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'id', 'external_token', 'ended')
if not turn[1] then return 'UNKNOWN_TURN' end
if turn[2] ~= ARGV[1] then return 'STALE' end
if turn[3] then return 'ENDED' end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'waited_at', t[1] * 1000 + math.floor(t[2] / 1000))
return 'OK'
