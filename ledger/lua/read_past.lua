#!lua flags=no-writes
-- read_past: read what turns were folded from: their records, and their log entries up to a position. A turn comes without entries where
--            they are no longer all there, or would be more than the answer holds; a turn that is over, or unknown, has none.
-- KEYS  1 log (stream)   then for each turn: its record (hash), its entries (list)
-- ARGV  1 position   2 the most entries   3 the most bytes of events
-- REPLY for each turn {the record's fields and values, its entries | nothing}
-- CRASH nothing is written.

-- include order
local room, bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local unfinished = {queued = true, running = true}

local function past(turn, key)
  local size = tonumber(redis.call('HGET', turn, 'bytes')) or 0
  local many = redis.call('LLEN', key)
  if many > room or size > bytes then return false end
  room, bytes = room - many, bytes - size
  local entries = {}
  for _, id in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if is_before(ARGV[1], id) then break end
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if not entry then return false end
    entries[#entries + 1] = entry
  end
  return entries
end

local turns = {}
for at = 2, #KEYS, 2 do
  local fields = redis.call('HGETALL', KEYS[at])
  local is_open = unfinished[redis.call('HGET', KEYS[at], 'state')]
  turns[#turns + 1] = {fields, is_open and past(KEYS[at], KEYS[at + 1]) or false}
end
return turns
