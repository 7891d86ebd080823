#!lua flags=allow-oom
-- intent: write down that a part is about to be sent, before any socket is opened; `reattempt` repeats an older owner's attempt by key.
-- KEYS  1 owner (hash)   2 part (hash)   3 lane (list)   4 sending (zset)   5 due (zset)   6 lanes (zset)
-- ARGV  1 token   2 part id   3 attempt id   4 body hash   5 lane name   6 operation: intent | reattempt
--       7 row of the transition table, "from=to,…"   8 quarantine_ms   9 key_window_ms (0: the channel takes no key)
--       10 need_ms: send deadline and margin, which must fit into what is left of the window
-- REPLY {OK | ALREADY | STALE | UNKNOWN_DELIVERY | STATE | NOT_HEAD | BUSY | EARLY | LAPSED | BODY, attempt's time, attempt's number}
-- CRASH before: nothing was sent.  after: the part stands in `sending` and the next owner recovers it.

-- include kinds
local wrong = wrong_kind({'hash', 'hash', 'list', 'zset', 'zset', 'zset'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', 0, 0} end
local p = redis.call('HMGET', KEYS[2], 'state', 'attempt', 'attempt_at', 'token', 'attempts', 'body_hash', 'exposed_at', 'due_at')
if not p[1] then return {'UNKNOWN_DELIVERY', 0, 0} end
if p[2] == ARGV[3] then
  if p[1] == 'sending' then return {'ALREADY', tonumber(p[3]), tonumber(p[5])} end
  return {'STATE', 0, 0}
end
local to = string.match(',' .. ARGV[7] .. ',', ',' .. p[1] .. '=([%w_]+),')
if not to then
  if p[1] == 'sending' then return {'BUSY', 0, 0} end
  return {'STATE', 0, 0}
end
if redis.call('LINDEX', KEYS[3], 0) ~= ARGV[2] then return {'NOT_HEAD', 0, 0} end
if p[6] ~= ARGV[4] then return {'BODY', 0, 0} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if p[1] == 'retry' and p[8] and now < tonumber(p[8]) then return {'EARLY', tonumber(p[8]), 0} end
if ARGV[6] == 'reattempt' then
  if p[4] == ARGV[1] then return {'BUSY', 0, 0} end -- our own attempt is still out
  if now < tonumber(p[3]) + tonumber(ARGV[8]) then return {'EARLY', tonumber(p[3]) + tonumber(ARGV[8]), 0} end
end
if p[7] and now + tonumber(ARGV[10]) >= tonumber(p[7]) + tonumber(ARGV[9]) then return {'LAPSED', 0, 0} end
local n = tonumber(p[5]) + 1
redis.call('HSET', KEYS[2], 'state', to, 'attempt', ARGV[3], 'attempt_at', now, 'token', ARGV[1], 'attempts', n,
  'attempt:' .. ARGV[3], n .. ' ' .. now .. ' sending')
if not p[7] then redis.call('HSET', KEYS[2], 'exposed_at', now, 'exposed_by', ARGV[3]) end
redis.call('ZADD', KEYS[4], now, ARGV[2])
redis.call('ZREM', KEYS[5], ARGV[2])
redis.call('ZADD', KEYS[6], now + tonumber(ARGV[8]), ARGV[5])
return {'OK', now, n}
