#!lua flags=allow-oom
-- take_blocks: hand the owner the next entries of the blocks stream; never blocks, and only under the owner's token.
-- KEYS  1 owner (hash)   2 committed (hash)   3 blocks (stream)
-- ARGV  1 token   2 group   3 consumer   4 count
-- REPLY {OK | STALE, blocks position, entries: {{id, {field, value, …}}, …}}
-- CRASH after (or a lost reply): what was taken is pending for this consumer, and the next take gives it again before anything new.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', '', {}} end
local position = redis.call('HGET', KEYS[2], 'blocks') or '0-0'
redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[2], '0', 'MKSTREAM')
local function read(from)
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', ARGV[4], 'STREAMS', KEYS[3], from)
  return reply and reply[1] and reply[1][2] or {}
end
local entries = read(position)
if #entries == 0 then entries = read('>') end
return {'OK', position, entries}
