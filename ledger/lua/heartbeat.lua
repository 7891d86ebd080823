#!lua flags=allow-oom
-- heartbeat: say that a worker of a role lives, forget those that have lapsed, list the rest.
-- KEYS  1 workers (zset)
-- ARGV  1 worker   2 ttl_ms
-- REPLY the live workers
-- CRASH before: the worker lapses.  after: a repeat prolongs once more.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)
