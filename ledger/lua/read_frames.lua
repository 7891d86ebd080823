#!lua flags=no-writes
-- read_frames: read entries of a turn's public stream, as many as together hold so many bytes; two at least, where there are two,
--              because the first may hold no more than what its reader has.
-- KEYS  1 frames (stream)
-- ARGV  1 id to start at, as XRANGE takes it   2 bytes
-- REPLY the entries
-- CRASH nothing is written.
local entries, bytes, start = {}, 0, ARGV[1]
repeat
  local entry = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 1)[1]
  if not entry then break end
  entries[#entries + 1] = entry
  for at = 2, #entry[2], 2 do bytes = bytes + #entry[2][at] end
  start = '(' .. entry[1]
until bytes >= tonumber(ARGV[2]) and #entries > 1 or #entries == 1000
return entries
