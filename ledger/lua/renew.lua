#!lua flags=allow-oom
-- renew: prolong the lease of a partition's owner, lapsed or not, as long as nobody has taken it. Notes in `full` whether the server
--        uses more than 80 % of its memory: publish and submit refuse then, so that the fold always has room to empty it.
-- KEYS  1 owner (hash)   2 committed (hash)
-- ARGV  1 token   2 lease_ms
-- REPLY OK | STALE
-- CRASH before: the lease runs out sooner.  after: a repeat prolongs once more.

-- include kinds
local wrong = wrong_kind({'hash', 'hash'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'STALE' end
local was = redis.call('HGET', KEYS[2], 'full')
local full = was
local info = redis.pcall('INFO', 'memory') -- an operator may have taken the right away; then the last word stands
if type(info) == 'string' then
  local used, limit = tonumber(string.match(info, '\nused_memory:(%d+)')), tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  full = limit > 0 and used >= 0.8 * limit and '1'
end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'lease_until', t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[2]))
if full and not was then
  redis.call('HSET', KEYS[2], 'full', full)
elseif was and not full then
  redis.call('HDEL', KEYS[2], 'full')
end
return 'OK'
