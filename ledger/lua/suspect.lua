#!lua flags=allow-oom
-- suspect: write down the turn that is about to be folded or rebuilt, so that a successor knows what killed its owner.
-- KEYS  1 owner of the fold (hash)   2 committed (hash)
-- ARGV  1 token   2 turn (empty: none)   3 entry (empty: rebuilding)
-- REPLY OK | STALE
-- CRASH before: no mark.  after: the next raise finds it, and how many owners marked it in a row; a commit takes it off.

-- include kinds
local wrong = wrong_kind({'hash', 'hash'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'STALE' end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[2], 'suspect', 'suspect_entry', 'suspect_by', 'suspect_lost')
else
  local marked = redis.call('HMGET', KEYS[2], 'suspect', 'suspect_entry', 'suspect_by', 'suspect_lost')
  local lost = 1 -- owners, with this one if it is lost
  if marked[1] == ARGV[2] and marked[2] == ARGV[3] then
    lost = (tonumber(marked[4]) or 1) + (marked[3] == ARGV[1] and 0 or 1)
  end
  redis.call('HSET', KEYS[2], 'suspect', ARGV[2], 'suspect_entry', ARGV[3], 'suspect_by', ARGV[1], 'suspect_lost', lost)
end
return 'OK'
