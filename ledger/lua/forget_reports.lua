#!lua flags=allow-oom
-- forget_reports: remove entries of a stream of reports, taken or not.
-- KEYS  1 reports, or reports set aside (stream)
-- ARGV  1 group   then the entries
-- REPLY how many there were
-- CRASH before: they are all there.  after: a repeat finds none of them.

-- include kinds
local wrong = wrong_kind({'stream'})
if wrong then return wrong end
local removed = 0
for i = 2, #ARGV do
  redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[i]) -- the stream of those set aside has no group
  removed = removed + redis.call('XDEL', KEYS[1], ARGV[i])
end
return removed
