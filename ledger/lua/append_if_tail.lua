#!lua flags=allow-oom
-- append_if_tail: add the fold owner's own events, unless the turn's last log entry is another than the owner saw.
-- KEYS  1 turn (hash)   2 log (stream)   3 entries (list)   4 inflight (zset)   5 requests (stream, group ingest)
--       6 deadlines (zset)   7 committed (hash)   8 owner of the fold (hash)
-- ARGV  1 turn   2 token   3 tail, or empty   4 first seq   5 n   6 events   7 terminal, or empty
-- REPLY {OK | ALREADY | UNKNOWN_TURN | STALE | ENDED | TAIL_MOVED | CONFLICT | GAP, next, cancel: 1 | 0, lag, entry}
-- CRASH before: the timer comes again.  after: a repeat answers ALREADY; the next owner finds the entry in the log.

-- include kinds
-- include adding
-- include append
local wrong = wrong_kind({'hash', 'stream', 'list', 'zset', 'stream', 'zset', 'hash', 'hash'})
if wrong then return wrong end
local first, n = tonumber(ARGV[4]), tonumber(ARGV[5])
local turn = redis.call('HMGET', KEYS[1], 'id', 'ended', 'next:fold', 'cancel', 'tail', 'entry')
local counts = redis.call('HMGET', KEYS[7], 'published', 'folded')
local lag = (tonumber(counts[1]) or 0) - (tonumber(counts[2]) or 0)
local next, cancel = tonumber(turn[3]) or 0, turn[4] and 1 or 0

if not turn[1] then return {'UNKNOWN_TURN', 0, 0, lag, ''} end
if redis.call('HGET', KEYS[8], 'token') ~= ARGV[2] then return {'STALE', next, cancel, lag, ''} end
if first + n <= next and is_stored('fold', first, next, ARGV[6]) then return {'ALREADY', next, cancel, lag, ''} end
if turn[2] then return {'ENDED', next, cancel, lag, ''} end
if (turn[5] or '') ~= ARGV[3] then return {'TAIL_MOVED', next, cancel, lag, ''} end
if first < next then return {'CONFLICT', next, cancel, lag, ''} end
if first > next then return {'GAP', next, cancel, lag, ''} end

local id, new_lag = append(ARGV[1], 'fold', first, n, ARGV[6], ARGV[7], turn[5], turn[6], 0)
return {'OK', first + n, cancel, new_lag, id}
