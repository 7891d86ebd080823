#!lua flags=allow-oom
-- take_blocks: hand the owner the next entries of the blocks stream; never blocks, and only under the owner's token.
-- KEYS  1 owner (hash)   2 committed (hash)   3 blocks (stream)
-- ARGV  1 token   2 group   3 consumer   4 count
-- REPLY {OK | STALE, blocks position, entries: {{id, {field, value, …}}, …}}
-- CRASH after (or a lost reply): what was taken is pending for this consumer, and the next take gives it again before anything new.

-- include group
-- include order
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', '', {}} end
local position = redis.call('HGET', KEYS[2], 'blocks') or '0-0'
-- The group follows the position, whatever was done to it: what was planned must not come again, and nothing may be left out.
local handed_out = position_of(KEYS[3], ARGV[2])
if not handed_out then
  redis.call('XGROUP', 'CREATE', KEYS[3], ARGV[2], position, 'MKSTREAM')
elseif is_before(handed_out, position) then
  redis.call('XGROUP', 'SETID', KEYS[3], ARGV[2], position)
end
local function read(from)
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', ARGV[4], 'STREAMS', KEYS[3], from)
  return reply and reply[1] and reply[1][2] or {}
end
local entries = read(position)
if #entries == 0 then entries = read('>') end
if #entries == 0 and #redis.call('XRANGE', KEYS[3], '(' .. position, '+', 'COUNT', 1) > 0 then -- it stands too far on, and nothing is pending
  redis.call('XGROUP', 'SETID', KEYS[3], ARGV[2], position)
  entries = read('>')
end
return {'OK', position, entries}
