#!lua flags=allow-oom
-- release: give a partition up at once. The token is dead afterwards; it is remembered only to answer a repeat.
-- KEYS  1 owner (hash)
-- ARGV  1 token
-- REPLY OK | ALREADY | STALE
-- CRASH before: the lease runs out.  after: a repeat answers ALREADY.
local owner = redis.call('HMGET', KEYS[1], 'token', 'released')
if owner[1] == ARGV[1] and ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], 'token', '', 'released', ARGV[1], 'lease_until', 0)
  return 'OK'
end
if owner[2] == ARGV[1] then return 'ALREADY' end
return 'STALE'
