#!lua flags=allow-oom
-- tally_deliveries: how many parts stand where, and since when the oldest; drops the dead and the late whose records have expired.
-- KEYS  1 sending (zset)   2 due (zset)   3 unknown (zset)   4 dead (zset)   5 lanes (zset)   6 late (zset)
-- ARGV  1 dead_ms: how long records of settled parts are kept
-- REPLY {now, sending, due, unknown, oldest unknown or 0, dead, oldest dead or 0, lanes, late}
-- CRASH before: they are dropped by the next one.  after: a repeat counts again.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - tonumber(ARGV[1]))
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - tonumber(ARGV[1]))
local function oldest(key) return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0) end
return {now, redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]), oldest(KEYS[3]),
  redis.call('ZCARD', KEYS[4]), oldest(KEYS[4]), redis.call('ZCARD', KEYS[5]), redis.call('ZCARD', KEYS[6])}
