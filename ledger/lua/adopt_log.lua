#!lua flags=allow-oom
-- adopt_log: put all pending entries under the new owner's consumer and delete the consumers that have none; the entries themselves
--            come with take_log, after the committed position.
-- KEYS  1 owner of the fold (hash)   2 committed (hash)   3 log (stream, group fold)
-- ARGV  1 token   2 consumer
-- REPLY {OK | STALE, number of pending entries, last entry that was handed out}
-- CRASH before: the entries stay with the old consumer.  after: a repeat claims them once more.

-- include kinds
-- include group
local wrong = wrong_kind({'hash', 'hash', 'stream'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', 0, ''} end
local taken = redis.call('HGET', KEYS[2], 'taken') or '0-0'
if not position_of(KEYS[3], 'fold') then redis.call('XGROUP', 'CREATE', KEYS[3], 'fold', taken, 'MKSTREAM') end
local cursor, pending = '0-0', 0
repeat
  local claimed = redis.call('XAUTOCLAIM', KEYS[3], 'fold', ARGV[2], 0, cursor, 'COUNT', 1000, 'JUSTID')
  cursor = claimed[1]
  pending = pending + #claimed[2]
until cursor == '0-0'
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[3], 'fold')) do
  if consumer[2] ~= ARGV[2] and consumer[4] == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[3], 'fold', consumer[2]) end
end
return {'OK', pending, taken}
