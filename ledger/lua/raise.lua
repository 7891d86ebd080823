#!lua flags=allow-oom
-- raise: take a partition whose lease has run out or was released, under a new token.
-- KEYS  1 owner (hash)   2 committed (hash)   3 inflight (zset)
-- ARGV  1 worker   2 nonce   3 lease_ms   4 the role's position: log | blocks
-- REPLY {RAISED, token, log position, blocks position, idle raises, suspect, suspect's entry, owners lost at it, turns in flight} | {NOT_FREE, worker, remaining_ms}
-- CRASH before: the lease stays free.  after: a repeat with the same nonce answers the same token; else the lease runs out.

-- include kinds
local wrong = wrong_kind({'hash', 'hash', 'zset'})
if wrong then return wrong end
local owner = redis.call('HMGET', KEYS[1], 'epoch', 'token', 'worker', 'lease_until', 'seen', 'idle_raises')
local committed = redis.call('HMGET', KEYS[2], 'log', 'blocks', 'suspect', 'suspect_entry', 'suspect_lost')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local token, idle = owner[2] or '', tonumber(owner[6]) or 0
local inflight = redis.call('ZRANGE', KEYS[3], 0, -1)
local position = (ARGV[4] == 'log' and committed[1] or ARGV[4] == 'blocks' and committed[2]) or '0-0'

if string.match(token, ':(.*)$') == ARGV[2] then
  redis.call('HSET', KEYS[1], 'lease_until', now + tonumber(ARGV[3])) -- the reply was lost: ours already
else
  local remaining = (tonumber(owner[4]) or 0) - now
  if remaining > 0 then return {'NOT_FREE', owner[3], remaining} end
  local epoch = (tonumber(owner[1]) or 0) + 1
  if position ~= (owner[5] or '0-0') or #inflight == 0 then
    idle = 0 -- whoever had no turn to fold was not lost at one
  elseif token ~= '' then
    idle = idle + 1 -- its owner was lost, not released, and had committed nothing
  end
  token = epoch .. ':' .. ARGV[2]
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'token', token, 'worker', ARGV[1], 'lease_until', now + tonumber(ARGV[3]),
    'seen', position, 'idle_raises', idle)
end
return {'RAISED', token, committed[1] or '0-0', committed[2] or '0-0', idle, committed[3] or '', committed[4] or '',
  tonumber(committed[5]) or 0, inflight}
