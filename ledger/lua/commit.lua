#!lua flags=allow-oom
-- commit: store the frames, blocks and state that came of a batch of log entries, together with the batch's position.
-- KEYS  1 owner of the fold (hash)   2 committed (hash)   3 log (stream, group fold)   4 blocks (stream)   5 inflight (zset)
--       6 admitted (hash)   7 requests (stream, group ingest)   8 deadlines (zset)
--       then per turn: turn (hash), frames (stream), entries (list), parts (list), parent's turn (hash) and entries (list) or its
--       own, and each new block (hash)
-- ARGV  1 token   2 prev   3 last   4 commit id   5 events   6 retention_ms   7 number of entries, then their ids; number of turns,
--       then per turn: turn, frames_next, frames, sse, blocks_next, blocks, state, quarantined, tool waits: 1 | 0, parent or empty,
--       notes_next, notes, events (what the parent is told), number of fields, the fields and values, and per block: version,
--       opener, text, closer, separator, markers
-- REPLY {OK | ALREADY | STALE | MISMATCH, what differs: committed | <turn> <field>}
-- CRASH before: the owner repeats the same call, or the next owner folds the batch again.  after: a repeat answers ALREADY.

-- include kinds
-- include adding
local wrong = wrong_kind({'hash', 'hash', 'stream', 'stream', 'zset', 'hash', 'stream', 'zset'})
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', ''} end
local committed = redis.call('HMGET', KEYS[2], 'log', 'commit')
local position = committed[1] or '0-0'
if position == ARGV[3] and committed[2] == ARGV[4] then return {'ALREADY', ''} end
if position ~= ARGV[2] then return {'MISMATCH', 'committed'} end

-- Read the turns and check every one, before anything is written.
local at, key, turns = 8 + tonumber(ARGV[7]), 9, {}
local function take(count)
  at = at + count
  return at - count
end
for _ = 1, tonumber(ARGV[take(1)]) do
  local a = take(14)
  local one = {id = ARGV[a], frames_next = tonumber(ARGV[a + 1]), frames = tonumber(ARGV[a + 2]), sse = ARGV[a + 3],
    blocks_next = tonumber(ARGV[a + 4]), blocks = tonumber(ARGV[a + 5]), state = ARGV[a + 6], quarantined = ARGV[a + 7],
    tool_waits = ARGV[a + 8] == '1', parent = ARGV[a + 9], notes_next = tonumber(ARGV[a + 10]), notes = tonumber(ARGV[a + 11]),
    events = ARGV[a + 12], fields = tonumber(ARGV[a + 13]), key = key}
  one.fields_at = take(2 * one.fields)
  one.blocks_at = take(6 * one.blocks)
  key = key + 6 + one.blocks
  local stored = redis.call('HMGET', KEYS[one.key], 'id', 'state', 'frames_next', 'blocks_next', 'tenant', 'entry', 'targets', 'planned',
    'open_parts', 'notes_next', 'tool_ms', 'silence_ms')
  if not stored[1] then return {'MISMATCH', one.id .. ' missing'} end
  if stored[2] ~= 'queued' and stored[2] ~= 'running' then return {'MISMATCH', one.id .. ' state'} end
  if stored[3] ~= ARGV[a + 1] then return {'MISMATCH', one.id .. ' frames_next'} end
  if stored[4] ~= ARGV[a + 4] then return {'MISMATCH', one.id .. ' blocks_next'} end
  if (stored[10] or '0') ~= ARGV[a + 10] then return {'MISMATCH', one.id .. ' notes_next'} end
  local top = redis.call('XREVRANGE', KEYS[one.key + 1], '+', '-', 'COUNT', 1)[1]
  if top and top[1] ~= one.frames_next .. '-0' then return {'MISMATCH', one.id .. ' frames'} end
  for i = 1, one.blocks do
    if redis.call('EXISTS', KEYS[one.key + 5 + i]) == 1 then return {'MISMATCH', one.id .. ' block ' .. one.blocks_next + i - 1} end
  end
  if one.notes > 0 then -- neither may be of a foreign kind
    redis.call('HGET', KEYS[one.key + 4], 'id')
    redis.call('LLEN', KEYS[one.key + 5])
  end
  one.tenant, one.entry, one.stored = stored[5], stored[6], stored
  one.to_nobody = stored[7] == '' or stored[7] == '[]'
  turns[#turns + 1] = one
end

-- From here on nothing can fail.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function admit_less(tenant)
  if redis.call('HINCRBY', KEYS[6], tenant, -1) <= 0 then redis.call('HDEL', KEYS[6], tenant) end
end
for _, one in ipairs(turns) do
  local turn = KEYS[one.key]
  if one.frames > 0 then
    redis.call('XADD', KEYS[one.key + 1], one.frames_next + one.frames .. '-0', 'first', one.frames_next, 'n', one.frames, 'sse', one.sse)
  end
  for i = 1, one.blocks do
    local block, b, ordinal = KEYS[one.key + 5 + i], one.blocks_at + 6 * (i - 1), one.blocks_next + i - 1
    redis.call('HSET', block, 'v', ARGV[b], 'opener', ARGV[b + 1], 'text', ARGV[b + 2], 'closer', ARGV[b + 3],
      'separator', ARGV[b + 4], 'markers', ARGV[b + 5])
    if one.to_nobody then
      redis.call('PEXPIRE', block, ARGV[6]) -- nothing will be planned for it
    else
      redis.call('XADD', KEYS[4], '*', 'turn', one.id, 'block', ordinal)
    end
  end
  redis.call('HSET', turn, 'state', one.state, 'frames_next', one.frames_next + one.frames, 'blocks_next', one.blocks_next + one.blocks)
  for i = one.fields_at, one.fields_at + 2 * one.fields - 1, 2 do redis.call('HSET', turn, ARGV[i], ARGV[i + 1]) end
  local planned = tonumber(one.stored[8])
  if one.to_nobody then planned = redis.call('HINCRBY', turn, 'planned', one.blocks) end
  local limit -- the one that begins to count: the turn may be over by it sooner than it was to be looked at
  if one.tool_waits then
    if redis.call('HSETNX', turn, 'tool_since', now) == 1 then limit = one.stored[11] end
  elseif redis.call('HDEL', turn, 'tool_since') == 1 then
    limit = one.stored[12]
  end
  if limit then redis.call('ZADD', KEYS[8], 'XX', 'LT', now + tonumber(limit), one.id) end
  if one.quarantined ~= '' then redis.call('HSET', turn, 'quarantined', one.quarantined) end
  if one.state ~= 'running' then
    redis.call('HSETNX', turn, 'ended', one.state) -- a quarantined turn has no terminal in the log: its producers stop here
    redis.call('HSET', turn, 'ended_at', now)
    redis.call('HDEL', turn, 'request') -- nobody asks the upstream for this turn any more
    redis.call('ZREM', KEYS[5], one.id)
    redis.call('ZREM', KEYS[8], one.id)
    if one.entry then -- a turn of an external producer has none
      redis.call('XACK', KEYS[7], 'ingest', one.entry)
      redis.call('XDEL', KEYS[7], one.entry)
    end
    admit_less(one.tenant)
    admit_less('*')
    if planned == one.blocks_next + one.blocks and tonumber(one.stored[9]) <= 0 then
      for i = one.key, one.key + 3 do redis.call('PEXPIRE', KEYS[i], ARGV[6]) end -- nothing left to deliver
    end
  end
end
-- What children tell: into the log of a parent that can still hear it, else it is counted.
for _, one in ipairs(turns) do
  if one.notes > 0 then
    local key = {turn = KEYS[one.key + 4], log = KEYS[3], entries = KEYS[one.key + 5], inflight = KEYS[5], deadlines = KEYS[8],
      committed = KEYS[2]}
    local parent = redis.call('HMGET', key.turn, 'tenant', 'ended', 'tail', 'bytes_max')
    if parent[1] == one.tenant and not parent[2] and parent[3] then
      add_entry(key, one.parent, 'child:' .. one.id, one.notes_next, one.notes, one.events, true, tonumber(parent[4]) or 0)
    else
      redis.call('HINCRBY', KEYS[one.key], 'notes_unheard', one.notes)
    end
    redis.call('HSET', KEYS[one.key], 'notes_next', one.notes_next + one.notes)
  end
end
local from, to = 8, 7 + tonumber(ARGV[7])
while from <= to do
  redis.call('XACK', KEYS[3], 'fold', unpack(ARGV, from, math.min(from + 999, to)))
  from = from + 1000
end
redis.call('HSET', KEYS[2], 'log', ARGV[3], 'commit', ARGV[4])
redis.call('HDEL', KEYS[2], 'suspect', 'suspect_entry', 'suspect_by', 'suspect_lost')
redis.call('HINCRBY', KEYS[2], 'folded', ARGV[5])
return {'OK', ''}
