#!lua flags=allow-oom
-- take_requests: hand out abandoned entries, then new ones; and delete consumers that are long gone and have nothing pending.
-- KEYS  1 requests (stream, group ingest)
-- ARGV  1 consumer   2 count, of each sort   3 min_idle_ms (-1: new ones only)
-- REPLY the entries
-- CRASH before: nothing is taken.  after: the entries are pending, and are handed out again when they have idled.

-- include kinds
-- include group
local wrong = wrong_kind({'stream'})
if wrong then return wrong end
local count, idle, taken = tonumber(ARGV[2]), tonumber(ARGV[3]), {}
if not position_of(KEYS[1], 'ingest') then redis.call('XGROUP', 'CREATE', KEYS[1], 'ingest', '0', 'MKSTREAM') end
if idle >= 0 then
  local cursor = '0-0'
  repeat
    local claimed = redis.call('XAUTOCLAIM', KEYS[1], 'ingest', ARGV[1], idle, cursor, 'COUNT', count - #taken)
    cursor = claimed[1]
    for _, entry in ipairs(claimed[2]) do taken[#taken + 1] = entry end
  until cursor == '0-0' or #taken >= count
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], 'ingest')) do
    if consumer[2] ~= ARGV[1] and consumer[4] == 0 and consumer[6] > 10 * idle then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'ingest', consumer[2])
    end
  end
end
local read = redis.call('XREADGROUP', 'GROUP', 'ingest', ARGV[1], 'COUNT', count, 'STREAMS', KEYS[1], '>')
if read then
  for _, entry in ipairs(read[1][2]) do taken[#taken + 1] = entry end
end
return taken
