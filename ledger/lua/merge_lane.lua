#!lua flags=allow-oom
-- merge_lane: the parts of a serial turn, held until the turns before it were planned, go to the end of their lane.
-- KEYS  1 owner (hash)   2 lanes (zset)   3 held lane (list)   4 lane (list)   then the parts (hash) of the held lane, in order
-- ARGV  1 token   2 held lane's name   3 lane's name   then the parts' ids, in the same order
-- REPLY OK | STALE | MISMATCH
-- CRASH after: the held lane is gone, and a repeat answers MISMATCH.

-- include kinds
local kinds = {'hash', 'zset', 'list', 'list'}
for i = 5, #KEYS do kinds[i] = 'hash' end
local wrong = wrong_kind(kinds)
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'STALE' end
local held = redis.call('LRANGE', KEYS[3], 0, -1)
if #held ~= #ARGV - 3 or #held == 0 then return 'MISMATCH' end
for i, id in ipairs(held) do
  if id ~= ARGV[i + 3] then return 'MISMATCH' end
end
local t = redis.call('TIME')
for i, id in ipairs(held) do
  redis.call('RPUSH', KEYS[4], id)
  redis.call('HSET', KEYS[i + 4], 'lane', ARGV[3])
end
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[2], 'NX', t[1] * 1000 + math.floor(t[2] / 1000), ARGV[3])
return 'OK'
