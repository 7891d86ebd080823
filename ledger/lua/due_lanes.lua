#!lua flags=allow-oom
-- due_lanes: the lanes that can be acted upon now, the longest waiting first, and when the next one can.
-- KEYS  1 lanes (zset)
-- ARGV  1 count
-- REPLY {redis time in ms, {lane, …}, time of the earliest lane that is not due or 0}
-- CRASH nothing is written.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lanes = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])
local later = redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
return {now, lanes, tonumber(later[2] or 0)}
