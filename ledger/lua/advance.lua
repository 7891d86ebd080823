#!lua flags=allow-oom
-- advance: move a part without an attempt: recovery and clocks (with the owner's token), an operator's word (without).
-- KEYS  1 owner (hash)   2 part (hash)   3 lane (list)   4 sending (zset)   5 due (zset)   6 unknown (zset)   7 dead (zset)
--       8 lanes (zset)   9 turn (hash)   10 late (zset)   11 entries (list), 12 frames (stream), 13 parts (list) of the turn
-- ARGV  1 part id   2 operation   3 row of the transition table, "from=to,…"   4 lane name   5 token ('' for an operator)
--       6 quarantine_ms (0: none)   7 wait_ms: until the lane's next step   8 note (JSON)   9 part_ttl_ms
--       10 field that an age is counted from ('' for none)   11 age_ms that must have passed since
--       12 key_window_ms (-1: not asked)   13 need_ms that must fit into what is left of the window
-- REPLY {OK | STALE | UNKNOWN_DELIVERY | STATE | BUSY | EARLY | LAPSED, state, turn may retire: 1 | 0, settled late: 1 | 0}
-- CRASH before: nothing changed.  after: a repeat answers STATE with the state reached.

-- include kinds
local wrong = wrong_kind({'hash', 'hash', 'list', 'zset', 'zset', 'zset', 'zset', 'zset', 'hash', 'zset', 'list', 'stream', 'list'})
if wrong then return wrong end
if ARGV[5] ~= '' and redis.call('HGET', KEYS[1], 'token') ~= ARGV[5] then return {'STALE', '', 0, 0} end
local p = redis.call('HMGET', KEYS[2], 'state', 'attempt_at', 'token', 'exposed_at', 'in_lane', 'proven_sent', 'passed_at')
local state = p[1]
if not state then return {'UNKNOWN_DELIVERY', '', 0, 0} end
local to = string.match(',' .. ARGV[3] .. ',', ',' .. state .. '=([%w_]+),')
if not to then return {'STATE', state, 0, 0} end
local op = ARGV[2]
if op == 'recover' and p[3] == ARGV[5] then return {'BUSY', state, 0, 0} end -- our own attempt is still out
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if p[2] and now < tonumber(p[2]) + tonumber(ARGV[6]) then return {'EARLY', state, 0, 0} end
if ARGV[10] ~= '' then
  local since = redis.call('HGET', KEYS[2], ARGV[10])
  if not since or now < tonumber(since) + tonumber(ARGV[11]) then return {'EARLY', state, 0, 0} end
end
if ARGV[12] ~= '-1' then
  local open = not p[4] or now + tonumber(ARGV[13]) < tonumber(p[4]) + tonumber(ARGV[12])
  if op == 'lapse' then
    if open then return {'EARLY', state, 0, 0} end
  elseif not open then
    return {'LAPSED', state, 0, 0}
  end
end
if p[6] and to ~= 'sent' then to = 'sent' end -- an earlier attempt is known to have arrived: there is nothing left to ask

local function settled(s) return s == 'sent' or s == 'dead' or s == 'abandoned' end
local function count_open(by)
  if redis.call('EXISTS', KEYS[9]) == 1 then redis.call('HINCRBY', KEYS[9], 'open_parts', by) end
end
local step = now + tonumber(ARGV[7])
local leads = redis.call('LINDEX', KEYS[3], 0) == ARGV[1]
redis.call('HSET', KEYS[2], 'state', to, 'note', ARGV[8])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
if to ~= 'unknown' or state ~= 'unknown' then redis.call('ZREM', KEYS[6], ARGV[1]) end
if settled(state) then -- taken back out of the dead
  redis.call('ZREM', KEYS[7], ARGV[1])
  redis.call('HDEL', KEYS[2], 'settled_at')
  redis.call('PERSIST', KEYS[2])
  for _, i in ipairs({9, 11, 12, 13}) do redis.call('PERSIST', KEYS[i]) end -- the turn owes a delivery again
  count_open(1)
end
if settled(to) or op == 'step_aside' then
  redis.call('LREM', KEYS[3], 1, ARGV[1])
  redis.call('HSET', KEYS[2], 'in_lane', 0)
  if to ~= 'sent' then redis.call('HSETNX', KEYS[2], 'passed_at', now) end -- those behind it go on without it
  step = now
end
if settled(to) then
  redis.call('HSET', KEYS[2], 'settled_at', now)
  if to ~= 'sent' then redis.call('ZADD', KEYS[7], now, ARGV[1]) end
  redis.call('PEXPIRE', KEYS[2], ARGV[9])
  if p[7] then
    redis.call('HSET', KEYS[2], 'late', 1)
    redis.call('ZADD', KEYS[10], now, ARGV[1])
  end
  count_open(-1)
elseif to == 'retry' then
  redis.call('HSET', KEYS[2], 'due_at', step)
  redis.call('ZADD', KEYS[5], step, ARGV[1])
  if op ~= 'rekey' then -- nothing of what came before has arrived, as far as anybody says
    redis.call('HDEL', KEYS[2], 'exposed_at', 'exposed_by')
    if op ~= 'not_found' then redis.call('HSET', KEYS[2], 'age_from', now, 'failures', 0) end -- a person begins anew
  end
  if op == 'resend' then redis.call('HINCRBY', KEYS[2], 'waivers', 1) end
  if p[5] ~= '1' then -- goes back to the front of its lane, behind what is being sent
    local head = redis.call('LINDEX', KEYS[3], 0)
    if head and redis.call('ZSCORE', KEYS[4], head) then
      redis.call('LINSERT', KEYS[3], 'AFTER', head, ARGV[1])
    else
      redis.call('LPUSH', KEYS[3], ARGV[1])
      leads = true
    end
    redis.call('HSET', KEYS[2], 'in_lane', 1)
  end
elseif state ~= 'unknown' then
  redis.call('HSET', KEYS[2], 'unknown_at', now)
  redis.call('ZADD', KEYS[6], now, ARGV[1])
end
if redis.call('LLEN', KEYS[3]) == 0 then
  redis.call('ZREM', KEYS[8], ARGV[4])
elseif leads then
  redis.call('ZADD', KEYS[8], step, ARGV[4])
end
local late = p[7] and 1 or 0
if not settled(to) then return {'OK', to, 0, 0} end
local turn = redis.call('HMGET', KEYS[9], 'state', 'planned', 'blocks_next', 'open_parts')
if turn[1] and turn[1] ~= 'queued' and turn[1] ~= 'running' and (tonumber(turn[4]) or 0) <= 0 and (turn[2] or '0') == (turn[3] or '0') then return {'OK', to, 1, late} end
return {'OK', to, 0, late}
