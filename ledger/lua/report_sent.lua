#!lua
-- report_sent: keep what another path says it sent of a shadowed turn; the same number with another text is refused, all or nothing.
-- KEYS  1 turn (hash)   2 legacy (hash)
-- ARGV  1 ttl_ms   2 how many messages there are in all, or empty while more may come   3 the report's own id, or empty
--       4 digest of the report   then number and message, in pairs
-- REPLY {OK | UNKNOWN_TURN | NOT_SHADOW}, {CONFLICT, number | total | report}, {OVER, total}
-- CRASH before: nothing is kept.  after: a repeat answers OK.

-- include kinds
local wrong = wrong_kind({'hash', 'hash'})
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'id', 'mode')
if not turn[1] then return {'UNKNOWN_TURN', ''} end
if turn[2] ~= 'shadow' then return {'NOT_SHADOW', ''} end
if ARGV[3] ~= '' then
  local before = redis.call('HGET', KEYS[2], 'report:' .. ARGV[3])
  if before then return before == ARGV[4] and {'OK', ''} or {'CONFLICT', 'report'} end
end
local total = redis.call('HGET', KEYS[2], 'total') or ARGV[2]
if ARGV[2] ~= '' and total ~= ARGV[2] then return {'CONFLICT', 'total'} end
for i = 5, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[2], ARGV[i])
  if known and known ~= ARGV[i + 1] then return {'CONFLICT', ARGV[i]} end
  if total ~= '' and tonumber(ARGV[i]) >= tonumber(total) then return {'OVER', total} end
end
if total ~= '' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local number = tonumber(field)
    if number and number >= tonumber(total) then return {'OVER', total} end
  end
  redis.call('HSET', KEYS[2], 'total', total)
end
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[2], 'report:' .. ARGV[3], ARGV[4]) end
local left = redis.call('PTTL', KEYS[1]) -- it must not outlive the turn, which alone says whose it is
redis.call('PEXPIRE', KEYS[2], left >= 0 and math.min(left, tonumber(ARGV[1])) or ARGV[1])
return {'OK', ''}
