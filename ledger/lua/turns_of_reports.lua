#!lua flags=no-writes
-- turns_of_reports: which turn each entry of a stream of reports is about; what they say stays where it is, since it may be no text.
-- KEYS  1 reports, or reports set aside (stream)
-- ARGV  1 after, an entry's id   2 count
-- REPLY {{entry, turn}, …}; the turn is empty where none is named
-- CRASH nothing is written.

-- include kinds
local wrong = wrong_kind({'stream'})
if wrong then return wrong end
local found = {}
for i, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])) do
  local turn = ''
  for k = 1, #entry[2] - 1, 2 do
    if entry[2][k] == 'turn' and string.match(entry[2][k + 1], '^%d+%-%x+$') then turn = entry[2][k + 1] end
  end
  found[i] = {entry[1], turn}
end
return found
