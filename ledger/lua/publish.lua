#!lua
-- publish: add a producer's batch of events to the log; the first terminal ends the turn and takes its request away.
-- KEYS  1 turn (hash)   2 log (stream)   3 entries (list)   4 inflight (zset)   5 requests (stream, group ingest)
--       6 deadlines (zset)   7 committed (hash)
-- ARGV  1 turn   2 token   3 producer   4 first seq   5 n   6 events   7 terminal, or empty
-- REPLY {OK | ALREADY | UNKNOWN_TURN | STALE | ENDED | GAP | OVERLAP | CONFLICT | FULL, next, cancel: 1 | 0, lag, entry}
-- CRASH before: the producer repeats from what it keeps.  after: a repeat answers ALREADY and adds nothing.

-- include kinds
-- include adding
-- include append
local wrong = wrong_kind({'hash', 'stream', 'list', 'zset', 'stream', 'zset', 'hash'})
if wrong then return wrong end
local first, n = tonumber(ARGV[4]), tonumber(ARGV[5])
local turn = redis.call('HMGET', KEYS[1], 'id', ARGV[3] .. '_token', 'ended', 'next:' .. ARGV[3], 'cancel', 'tail', 'entry', 'bytes_max')
local counts = redis.call('HMGET', KEYS[7], 'published', 'folded', 'full')
local lag = (tonumber(counts[1]) or 0) - (tonumber(counts[2]) or 0)
local next, cancel = tonumber(turn[4]) or 0, turn[5] and 1 or 0

if not turn[1] then return {'UNKNOWN_TURN', 0, 0, lag, ''} end
if ARGV[2] == '' or turn[2] ~= ARGV[2] then return {'STALE', next, cancel, lag, ''} end
if first < next and not is_stored(ARGV[3], first, next, ARGV[6]) then return {'CONFLICT', next, cancel, lag, ''} end
if first + n <= next then return {'ALREADY', next, cancel, lag, ''} end
if turn[3] then return {'ENDED', next, cancel, lag, ''} end
if first < next then return {'OVERLAP', next, cancel, lag, ''} end
if first > next then return {'GAP', next, cancel, lag, ''} end
if counts[3] and ARGV[7] == '' then return {'FULL', next, cancel, lag, ''} end -- a terminal frees memory, so it passes

local id, new_lag = append(ARGV[1], ARGV[3], first, n, ARGV[6], ARGV[7], turn[6], turn[7], tonumber(turn[8]) or 0)
return {'OK', first + n, cancel, new_lag, id}
