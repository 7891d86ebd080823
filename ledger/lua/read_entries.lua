#!lua flags=no-writes
-- read_entries: read log entries by id; those that are trimmed away are left out.
-- KEYS  1 log (stream)
-- ARGV  the ids, at most 1000
-- REPLY the entries
-- CRASH nothing is written.
local entries = {}
for _, id in ipairs(ARGV) do
  entries[#entries + 1] = redis.call('XRANGE', KEYS[1], id, id)[1]
end
return entries
