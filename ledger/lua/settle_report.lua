#!lua flags=allow-oom
-- settle_report: take away a report that is kept with its turn; or put one that cannot be aside, as it came, with the reason.
-- KEYS  1 reports (stream, group gateway)   2 reports set aside (stream)
-- ARGV  1 entry   2 reason; empty: it is kept with its turn   3 how many are kept aside   4 for how long, ms
-- REPLY 1; 0: it was settled before
-- CRASH before: the entry stays pending.  after: a repeat answers 0.

-- include kinds
-- include aside
local wrong = wrong_kind({'stream', 'stream'})
if wrong then return wrong end
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return 0 end
if ARGV[2] ~= '' then
  end_aside(ARGV[4])
  put_aside(found[1], ARGV[2], ARGV[3], ARGV[4])
else
  redis.call('XACK', KEYS[1], 'gateway', ARGV[1])
  redis.call('XDEL', KEYS[1], ARGV[1])
end
return 1
