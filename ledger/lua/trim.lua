#!lua flags=allow-oom
-- trim: remove log entries before the low-water mark that are older than `log_ms`, block ids behind delivery's position, old turns of the index.
-- KEYS  1 owner of the fold (hash)   2 committed (hash)   3 log (stream)   4 inflight (zset)   5 blocks (stream)   6 turns (zset)
-- ARGV  1 token   2 log_ms   3 index_ms
-- REPLY {OK | STALE, log entries removed, block ids removed, low-water mark}
-- CRASH before: the next trim does it.  after: a repeat finds nothing to remove.

-- include kinds
local wrong = wrong_kind({'hash', 'hash', 'stream', 'zset', 'stream', 'zset'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', 0, 0, ''} end
local committed = redis.call('HMGET', KEYS[2], 'log', 'blocks')
local low = committed[1] or '0-0'
local low_ms = tonumber(string.match(low, '^%d+'))
-- The oldest turn's score is the millisecond of its first entry; the mark is that millisecond's start, at or before the entry.
local oldest = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
if oldest[1] and tonumber(oldest[2]) <= low_ms then
  low_ms = tonumber(oldest[2])
  low = string.format('%.0f-0', low_ms)
end
local t = redis.call('TIME')
local kept_ms = t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(ARGV[2])
local keep = low
if kept_ms < low_ms then keep = string.format('%.0f-0', math.max(kept_ms, 0)) end
local log_removed = redis.call('XTRIM', KEYS[3], 'MINID', '=', keep)
local blocks_removed = redis.call('XTRIM', KEYS[5], 'MINID', '=', committed[2] or '0-0')
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', kept_ms + tonumber(ARGV[2]) - tonumber(ARGV[3]))
return {'OK', log_removed, blocks_removed, low}
