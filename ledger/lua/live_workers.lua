#!lua flags=no-writes
-- live_workers: list the workers of a role whose heartbeat has not lapsed.
-- KEYS  1 workers (zset)
-- REPLY the live workers
-- CRASH nothing is written.
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. t[1] * 1000 + math.floor(t[2] / 1000), '+inf')
