#!lua flags=allow-oom
-- take_log: hand the owner the log's next entries. What was handed out before and lies after the caller's last entry comes again.
-- KEYS  1 owner of the fold (hash)   2 committed (hash)   3 log (stream, group fold)
-- ARGV  1 token   2 consumer   3 after   4 count
-- REPLY {OK | STALE | ROLLED_BACK, entries}
-- CRASH before: nothing is taken.  after: a repeat, or the next owner, gets the same entries.

-- include kinds
-- include group
-- include order
local wrong = wrong_kind({'hash', 'hash', 'stream'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', {}} end
local taken = redis.call('HGET', KEYS[2], 'taken') or '0-0'

if is_before(taken, ARGV[3]) then return {'ROLLED_BACK', {}} end
if is_before(ARGV[3], taken) then
  local again = redis.call('XRANGE', KEYS[3], '(' .. ARGV[3], taken, 'COUNT', ARGV[4])
  if #again > 0 then return {'OK', again} end
end

-- The group follows `taken`, whatever was done to it: it is made anew where it is missing and set where it stands elsewhere.
local position = position_of(KEYS[3], 'fold')
if not position then
  redis.call('XGROUP', 'CREATE', KEYS[3], 'fold', taken, 'MKSTREAM')
elseif position ~= taken then
  redis.call('XGROUP', 'SETID', KEYS[3], 'fold', taken)
end
local read = redis.call('XREADGROUP', 'GROUP', 'fold', ARGV[2], 'COUNT', ARGV[4], 'STREAMS', KEYS[3], '>')
if not read then return {'OK', {}} end
local entries = read[1][2]
redis.call('HSET', KEYS[2], 'taken', entries[#entries][1])
return {'OK', entries}
