#!lua flags=allow-oom
-- take_reports: hand out reports that a gone reader left, then new ones; what is no text is put aside. Deletes readers that are long gone, and what
--               was put aside long ago.
-- KEYS  1 reports (stream, group gateway)   2 reports set aside (stream)
-- ARGV  1 consumer   2 count, of each sort   3 min_idle_ms   4 how many are kept aside   5 for how long, ms
-- REPLY {entries, ids of those that were put aside}; none, and no key is made, where nobody has ever written one
-- CRASH before: nothing is taken.  after: the entries are pending, and are handed out again when they have idled.

-- include kinds
-- include group
-- include aside
local wrong = wrong_kind({'stream', 'stream'})
if wrong then return wrong end
end_aside(ARGV[5])
if redis.call('EXISTS', KEYS[1]) == 0 then return {{}, {}} end
local count, idle, found, taken, aside = tonumber(ARGV[2]), tonumber(ARGV[3]), {}, {}, {}
if not position_of(KEYS[1], 'gateway') then redis.call('XGROUP', 'CREATE', KEYS[1], 'gateway', '0') end
local claimed = redis.call('XAUTOCLAIM', KEYS[1], 'gateway', ARGV[1], idle, '0-0', 'COUNT', count)
for _, entry in ipairs(claimed[2]) do found[#found + 1] = entry end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], 'gateway')) do
  if consumer[2] ~= ARGV[1] and consumer[4] == 0 and consumer[6] > 10 * idle then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'gateway', consumer[2])
  end
end
local read = redis.call('XREADGROUP', 'GROUP', 'gateway', ARGV[1], 'COUNT', count, 'STREAMS', KEYS[1], '>')
if read then
  for _, entry in ipairs(read[1][2]) do found[#found + 1] = entry end
end
for _, entry in ipairs(found) do
  local text = true
  for _, word in ipairs(entry[2]) do text = text and is_text(word) end
  if text then
    taken[#taken + 1] = entry
  else
    put_aside(entry, 'not_text', ARGV[4], ARGV[5])
    aside[#aside + 1] = entry[1]
  end
end
return {taken, aside}
