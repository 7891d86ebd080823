#!lua flags=allow-oom
-- purge_part: remove the record of a part that owes nothing more and stands in no lane, for good.
-- KEYS  1 part (hash)   2 parts of its turn (list)   3 dead (zset)   4 late (zset)
-- ARGV  1 part id   2 settled states, ",sent,dead,…,"   3 age_ms: so long it must have been settled
-- REPLY {OK | ALREADY | STATE | EARLY, the part's state}
-- CRASH before: it is still there.  after: a repeat answers ALREADY.

-- include kinds
local wrong = wrong_kind({'hash', 'list', 'zset', 'zset'})
if wrong then return wrong end
local p = redis.call('HMGET', KEYS[1], 'state', 'in_lane', 'settled_at')
if not p[1] then return {'ALREADY', ''} end
if p[2] == '1' or not string.find(ARGV[2], ',' .. p[1] .. ',', 1, true) then return {'STATE', p[1]} end
local t = redis.call('TIME')
if (tonumber(p[3]) or 0) + tonumber(ARGV[3]) > t[1] * 1000 + math.floor(t[2] / 1000) then return {'EARLY', p[1]} end
redis.call('UNLINK', KEYS[1])
redis.call('LREM', KEYS[2], 0, ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
return {'OK', p[1]}
