#!lua flags=allow-oom
-- receipt: record the outcome of one attempt of a part; a fact, taken from any token when the attempt id matches.
-- KEYS  1 part (hash)   2 lane (list)   3 sending (zset)   4 due (zset)   5 unknown (zset)   6 dead (zset)   7 lanes (zset)
--       8 turn (hash)   9 late (zset)
-- ARGV  1 part id   2 attempt id   3 verdict: sent | retry | unknown | dead   4 row of the transition table, "from=to,…"
--       5 wait_ms: until the lane's next step   6 receipt (JSON)   7 lane name   8 part_ttl_ms   9 proven: 1 | 0 (nothing can have arrived)
-- REPLY {OK | ALREADY | DUPLICATE | OTHER_ATTEMPT | LATE | UNKNOWN_DELIVERY, state, turn may retire: 1 | 0, settled late: 1 | 0}
--       DUPLICATE: an earlier attempt turns out sent although another was begun.  LATE: the part was settled otherwise before.
--       Settled late: its lane had gone on without it, or it was settled otherwise before this was told.
-- CRASH before: recovered after the quarantine.  after: a repeat answers ALREADY.

-- include kinds
local wrong = wrong_kind({'hash', 'list', 'zset', 'zset', 'zset', 'zset', 'zset', 'hash', 'zset'})
if wrong then return wrong end
local p = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'attempt:' .. ARGV[2], 'proven_sent', 'exposed_by', 'in_lane', 'passed_at')
local state = p[1]
if not state then return {'UNKNOWN_DELIVERY', '', 0, 0} end
if not p[3] then return {'OTHER_ATTEMPT', state, 0, 0} end
local number, began, was = string.match(p[3], '^(%d+) (%d+) (%w+)$')
local current = p[2] == ARGV[2]

local function may_retire()
  local turn = redis.call('HMGET', KEYS[8], 'state', 'planned', 'blocks_next', 'open_parts')
  if turn[1] and turn[1] ~= 'queued' and turn[1] ~= 'running' and (tonumber(turn[4]) or 0) <= 0 and (turn[2] or '0') == (turn[3] or '0') then return 1 end
  return 0
end

if was == ARGV[3] then return {'ALREADY', state, may_retire(), 0} end
if was == 'sent' then return {'LATE', state, 0, 0} end -- known to be sent: nothing said afterwards takes that back

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local code, verdict = 'OK', ARGV[3]
local to = string.match(',' .. ARGV[4] .. ',', ',' .. state .. '=([%w_]+),')
if not current then
  if verdict ~= 'sent' then
    redis.call('HSET', KEYS[1], 'attempt:' .. ARGV[2], number .. ' ' .. began .. ' ' .. verdict)
    return {'OTHER_ATTEMPT', state, 0, 0}
  end
  redis.call('HSET', KEYS[1], 'proven_sent', ARGV[2], 'duplicate_detected', 1)
  code = 'DUPLICATE'
  if state == 'sending' or not to then -- the newer attempt is still out, or its outcome stands
    redis.call('HSET', KEYS[1], 'attempt:' .. ARGV[2], number .. ' ' .. began .. ' sent')
    return {code, state, 0, 0}
  end
elseif not to then
  redis.call('HSET', KEYS[1], 'attempt:' .. ARGV[2], number .. ' ' .. began .. ' ' .. verdict, 'late_receipt', ARGV[6])
  if verdict ~= 'sent' then return {'LATE', state, 0, 0} end
  redis.call('HSET', KEYS[1], 'proven_sent', ARGV[2], 'late', 1) -- whoever requeues it finds it sent
  redis.call('ZADD', KEYS[9], now, ARGV[1])
  return {'LATE', state, 0, 1}
elseif p[4] then
  to = 'sent' -- an earlier attempt of this part is known to have arrived
end

local next_step = now + tonumber(ARGV[5])
local leads = redis.call('LINDEX', KEYS[2], 0) == ARGV[1]
redis.call('HSET', KEYS[1], 'state', to, 'attempt:' .. ARGV[2], number .. ' ' .. began .. ' ' .. verdict, 'receipt', ARGV[6])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
if to == 'sent' or to == 'dead' then
  redis.call('HSET', KEYS[1], 'settled_at', now, 'in_lane', 0)
  redis.call('LREM', KEYS[2], 1, ARGV[1])
  if to == 'dead' then redis.call('ZADD', KEYS[6], now, ARGV[1]) end
  if p[7] then
    redis.call('HSET', KEYS[1], 'late', 1)
    redis.call('ZADD', KEYS[9], now, ARGV[1])
  elseif to == 'dead' then
    redis.call('HSET', KEYS[1], 'passed_at', now)
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[8])
  if redis.call('EXISTS', KEYS[8]) == 1 then redis.call('HINCRBY', KEYS[8], 'open_parts', -1) end
  next_step = now
elseif to == 'retry' then
  if ARGV[9] == '1' and p[5] == ARGV[2] then redis.call('HDEL', KEYS[1], 'exposed_at', 'exposed_by') end
  redis.call('HSET', KEYS[1], 'due_at', next_step)
  redis.call('HINCRBY', KEYS[1], 'failures', 1)
  redis.call('ZADD', KEYS[4], next_step, ARGV[1])
  if p[6] == '0' then -- had left its lane as unknown: goes back to the front, behind what is being sent
    local head = redis.call('LINDEX', KEYS[2], 0)
    if head and redis.call('ZSCORE', KEYS[3], head) then
      redis.call('LINSERT', KEYS[2], 'AFTER', head, ARGV[1])
    else
      redis.call('LPUSH', KEYS[2], ARGV[1])
      leads = true
    end
    redis.call('HSET', KEYS[1], 'in_lane', 1)
  end
else
  redis.call('HSET', KEYS[1], 'unknown_at', now)
  redis.call('ZADD', KEYS[5], now, ARGV[1])
end
if redis.call('LLEN', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[7], ARGV[7])
elseif leads then
  redis.call('ZADD', KEYS[7], next_step, ARGV[7])
end
if to == 'sent' or to == 'dead' then return {code, to, may_retire(), p[7] and 1 or 0} end
return {code, to, 0, 0}
