#!lua flags=allow-oom
-- renew_turn: prolong the claim of a turn, lapsed or not, as long as nobody has taken it; tell of a cancel. Its holder says
--   whether it waits for us (the turn's upstream is not read on meanwhile): such a time is no silence.
-- KEYS  1 turn (hash)   2 requests (stream, group ingest)
-- ARGV  1 token   2 lease_ms   3 waits: 1 | 0
-- REPLY {OK | UNKNOWN_TURN | STALE | ENDED, cancel: 1 | 0}
-- CRASH before: the claim lapses sooner.  after: a repeat prolongs once more.
local turn = redis.call('HMGET', KEYS[1], 'id', 'ingest_token', 'ended', 'cancel', 'ingest_worker', 'entry')
local cancel = turn[4] and 1 or 0
if not turn[1] then return {'UNKNOWN_TURN', 0} end
if turn[2] ~= ARGV[1] then return {'STALE', cancel} end
if turn[3] then return {'ENDED', cancel} end
redis.pcall('XCLAIM', KEYS[2], 'ingest', turn[5], 0, turn[6], 'JUSTID') -- the pending entry mirrors the claim; it decides nothing
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], 'ingest_lease_until', now + tonumber(ARGV[2]))
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'waited_at', now) end
return {'OK', cancel}
