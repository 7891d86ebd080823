#!lua flags=allow-oom
-- defer_lane: look at a lane again later; refused when its head is no longer the part that the decision was about.
-- KEYS  1 owner (hash)   2 lanes (zset)   3 lane (list)
-- ARGV  1 token   2 lane name   3 part id ('' for an empty lane)   4 wait_ms
-- REPLY OK | STALE | MISMATCH
-- CRASH before: the lane is looked at once more, in vain.  after: a repeat puts it off again by as much.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'STALE' end
local head = redis.call('LINDEX', KEYS[3], 0)
if (head or '') ~= ARGV[3] then return 'MISMATCH' end
if not head then
  redis.call('ZREM', KEYS[2], ARGV[2])
  return 'OK'
end
local t = redis.call('TIME')
redis.call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[4]), ARGV[2])
return 'OK'
