#!lua flags=no-writes
-- due_deadlines: list turns whose deadline has come, the oldest first.
-- KEYS  1 deadlines (zset)
-- ARGV  1 count
-- REPLY the turns
-- CRASH nothing is written.
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000), 'LIMIT', 0, ARGV[1])
