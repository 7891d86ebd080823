-- Add an entry to a turn's log; returns its id and how many events the partition's log ever had.
local function add_entry(key, turn, producer, first, n, text, has_tail, bytes_max)
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local id = redis.call('XADD', key.log, '*', 'turn', turn, 'producer', producer, 'seq', first, 'n', n, 'events', text)
  redis.call('RPUSH', key.entries, id)
  redis.call('HSET', key.turn, 'next:' .. producer, first + n, 'tail', id, 'last_event_at', now)
  if not has_tail then redis.call('ZADD', key.inflight, string.match(id, '^%d+'), turn) end
  local bytes = redis.call('HINCRBY', key.turn, 'bytes', #text)
  if bytes_max > 0 and bytes > bytes_max then
    redis.call('ZADD', key.deadlines, now, turn) -- over its bytes: the fold's owner looks at it now
  end
  return id, redis.call('HINCRBY', key.committed, 'published', n)
end
