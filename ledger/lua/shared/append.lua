-- What publish and append_if_tail have in common.  KEYS  1 turn   2 log   3 entries   4 inflight   5 requests   6 deadlines   7 committed

-- The events of a batch, apart: JSON holds no raw line feed, so ",\n" stands between events only.
local function split(text)
  local events, from = {}, 2
  while true do
    local at = string.find(text, ',\n', from, true)
    if not at then
      events[#events + 1] = string.sub(text, from, -2)
      return events
    end
    events[#events + 1] = string.sub(text, from, at - 1)
    from = at + 2
  end
end

-- Whether the stored events from `first` up to before `next` are those of the batch. Entries are walked from the last one back; one
-- that is trimmed away is long folded and cannot be told apart any more.
local function is_stored(producer, first, next, text)
  local events, stop = split(text), -1
  while true do
    local ids = redis.call('LRANGE', KEYS[3], stop - 63, stop)
    for i = #ids, 1, -1 do
      local entry = redis.call('XRANGE', KEYS[2], ids[i], ids[i])[1]
      if not entry then return true end
      local stored = entry[2]
      if stored[4] == producer then
        local seq, n = tonumber(stored[6]), tonumber(stored[8])
        local theirs = split(stored[10])
        for number = math.max(seq, first), math.min(seq + n, first + #events, next) - 1 do
          if theirs[number - seq + 1] ~= events[number - first + 1] then return false end
        end
        if seq <= first then return true end
      end
    end
    if #ids < 64 then return true end
    stop = stop - 64
  end
end

-- Add a batch that passed every check; returns the entry's id and the lag. `has_tail`: whether it is not the turn's first entry.
local function append(turn, producer, first, n, text, terminal, has_tail, request, bytes_max)
  local key = {turn = KEYS[1], log = KEYS[2], entries = KEYS[3], inflight = KEYS[4], deadlines = KEYS[6], committed = KEYS[7]}
  local id, published = add_entry(key, turn, producer, first, n, text, has_tail, bytes_max)
  if terminal ~= '' then
    redis.call('HSET', KEYS[1], 'ended', terminal)
    if request and request ~= '' then -- a turn of an external producer has none
      redis.call('XACK', KEYS[5], 'ingest', request)
      redis.call('XDEL', KEYS[5], request)
    end
    redis.call('ZREM', KEYS[6], turn)
  end
  return id, published - (tonumber(redis.call('HGET', KEYS[7], 'folded')) or 0)
end
