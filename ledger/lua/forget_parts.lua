#!lua flags=allow-oom
-- forget_parts: remove parts of a turn that is over, from their lanes and lists too, whatever state they are in.
-- KEYS  1 turn (hash)   2 parts (list)   3 sending (zset)   4 due (zset)   5 unknown (zset)   6 dead (zset)   7 late (zset)
--       8 lanes (zset)   then per part: part (hash), lane (list)
-- ARGV  1 quarantine_ms: so long after its start an attempt may still be on its way   then per part: id, lane name
-- REPLY {OK | RUNNING | PLANNING | SENDING | MISMATCH, the part in the way}
-- CRASH before: they are all there.  after: a repeat finds nothing of them.

-- include kinds
local kinds = {'hash', 'list', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset'}
for i = 9, #KEYS, 2 do
  kinds[i], kinds[i + 1] = 'hash', 'list'
end
local wrong = wrong_kind(kinds)
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'state', 'planned', 'blocks_next')
if turn[1] == 'queued' or turn[1] == 'running' then return {'RUNNING', ''} end
if turn[1] and turn[2] ~= turn[3] then return {'PLANNING', ''} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local count, open = (#ARGV - 1) / 2, 0
for i = 1, count do
  local p = redis.call('HMGET', KEYS[7 + 2 * i], 'state', 'lane', 'attempt_at')
  if p[2] and p[2] ~= ARGV[2 * i + 1] then return {'MISMATCH', ARGV[2 * i]} end
  if p[1] == 'sending' and now < (tonumber(p[3]) or 0) + tonumber(ARGV[1]) then return {'SENDING', ARGV[2 * i]} end
  if p[1] == 'pending' or p[1] == 'sending' or p[1] == 'retry' or p[1] == 'unknown' then open = open + 1 end
end

for i = 1, count do
  local id, lane = ARGV[2 * i], ARGV[2 * i + 1]
  redis.call('UNLINK', KEYS[7 + 2 * i])
  for k = 3, 7 do redis.call('ZREM', KEYS[k], id) end
  redis.call('LREM', KEYS[2], 0, id)
  if redis.call('LREM', KEYS[8 + 2 * i], 0, id) > 0 then
    if redis.call('LLEN', KEYS[8 + 2 * i]) == 0 then
      redis.call('ZREM', KEYS[8], lane)
    else
      redis.call('ZADD', KEYS[8], now, lane) -- whoever is first now may be sent
    end
  end
end
if turn[1] and open > 0 then redis.call('HINCRBY', KEYS[1], 'open_parts', -open) end
return {'OK', ''}
