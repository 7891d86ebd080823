#!lua flags=allow-oom
-- check_deadline: say why a turn is over, or put its deadline off to the next time at which it could be.
--   Silence and a missing tool are counted only while the turn could have been heard: not while its producer waits for us, not while
--   events of it are unfolded, not while the server was away (nor is a queue). Its age counts everything, so that it bounds the log.
-- KEYS  1 owner of the fold (hash)   2 turn (hash)   3 deadlines (zset)   4 committed (hash)
-- ARGV  1 token   2 turn   3 calm_ms: for how long the server has surely been there
-- REPLY {DUE, reason, tail, next seq of the fold} | {NONE} | {STALE}
-- CRASH before: the turn stays due.  after: a repeat answers the same, until append_if_tail has ended the turn.

-- include kinds
-- include order
local wrong = wrong_kind({'hash', 'hash', 'zset', 'hash'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE'} end
local fields = {'id', 'ended', 'tail', 'next:fold', 'cancel_until', 'bytes', 'bytes_max', 'submitted_at', 'turn_ms', 'ingest_epoch',
  'queue_ms', 'tool_since', 'tool_ms', 'last_event_at', 'claimed_at', 'silence_ms',
  'waited_at'}
local turn = {}
for i, value in ipairs(redis.call('HMGET', KEYS[2], unpack(fields))) do turn[fields[i]] = value end
if not turn.id or turn.ended then
  redis.call('ZREM', KEYS[3], ARGV[2])
  return {'NONE'}
end
local function number(name) return tonumber(turn[name]) or 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local since = now - tonumber(ARGV[3])
local held = math.max(since, number('waited_at'))
if turn.tail and is_before(redis.call('HGET', KEYS[4], 'log') or '0-0', turn.tail) then held = now end

local ends = {{'over_age', number('submitted_at') + number('turn_ms')}}
if turn.cancel_until then ends[#ends + 1] = {'cancelled', number('cancel_until')} end
if number('bytes_max') > 0 and number('bytes') > number('bytes_max') then ends[#ends + 1] = {'over_bytes', now} end
if not turn.ingest_epoch then
  ends[#ends + 1] = {'never_taken', math.max(number('submitted_at'), since) + number('queue_ms')}
elseif turn.tool_since then
  ends[#ends + 1] = {'tool_missing', math.max(number('tool_since'), held) + number('tool_ms')}
else
  ends[#ends + 1] = {'silent', math.max(number('last_event_at'), number('claimed_at'), held) + number('silence_ms')}
end
table.sort(ends, function(a, b) return a[2] < b[2] end)
if ends[1][2] <= now then return {'DUE', ends[1][1], turn.tail or '', turn['next:fold'] or 0} end
redis.call('ZADD', KEYS[3], ends[1][2], ARGV[2])
return {'NONE'}
