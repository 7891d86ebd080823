#!lua flags=allow-oom
-- adopt_blocks: after a take-over, claim what earlier owners took and never planned; called until it answers 0.
-- KEYS  1 owner (hash)   2 committed (hash)   3 blocks (stream)
-- ARGV  1 token   2 group   3 consumer   4 count
-- REPLY {OK | STALE, number claimed}
-- CRASH after: they are pending for a consumer that is gone, and the next owner adopts them.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', 0} end
local position = redis.call('HGET', KEYS[2], 'blocks') or '0-0'
redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[2], position, 'MKSTREAM')
local ids = {}
local consumers = redis.call('XINFO', 'CONSUMERS', KEYS[3], ARGV[2])
for _, row in ipairs(consumers) do
  local name, pending = row[2], row[4] -- {name, …, pending, …, idle, …}
  if name ~= ARGV[3] then
    if pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[3], ARGV[2], name)
    elseif #ids == 0 then
      for _, entry in ipairs(redis.call('XPENDING', KEYS[3], ARGV[2], '-', '+', ARGV[4], name)) do ids[#ids + 1] = entry[1] end
    end
  end
end
if #ids == 0 then return {'OK', 0} end
for _, id in ipairs(ids) do redis.call('XCLAIM', KEYS[3], ARGV[2], ARGV[3], 0, id, 'JUSTID') end
return {'OK', #ids}
