#!lua flags=allow-oom
-- plan: make the delivery records of one block, put them into their lanes in order, and move past the block's entry.
-- KEYS  1 owner (hash)   2 committed (hash)   3 blocks (stream)   4 turn (hash)   5 block (hash)   6 lanes (zset)
--       7 parts of the turn (list)   8 dead (zset)   then per part:  part (hash), lane (list)
-- ARGV  1 token   2 prev (blocks position)   3 entry id   4 group   5 ttl_ms of what is done with   6 number of parts
--       7 index_ttl_ms of the turn's list
--       then per part, 16 each:  id, lane name, state, turn, block, target hash, part, session, channel, target,
--       recipient, body, body hash, content type, guarantee, account
-- REPLY {OK | ALREADY | STALE | MISMATCH, blocks position, turn may retire: 1 | 0}
-- CRASH before: the entry is adopted and planned again.  after: a repeat answers ALREADY.

-- include kinds
-- include order
local kinds = {'hash', 'hash', 'stream', 'hash', 'hash', 'zset', 'list', 'zset'}
for i = 9, #KEYS, 2 do
  kinds[i], kinds[i + 1] = 'hash', 'list'
end
local wrong = wrong_kind(kinds)
if wrong then return wrong end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return {'STALE', '', 0} end
local position = redis.call('HGET', KEYS[2], 'blocks') or '0-0'
local function may_retire()
  local turn = redis.call('HMGET', KEYS[4], 'state', 'planned', 'blocks_next', 'open_parts')
  if turn[1] and turn[1] ~= 'queued' and turn[1] ~= 'running' and (tonumber(turn[4]) or 0) <= 0 and (turn[2] or '0') == (turn[3] or '0') then return 1 end
  return 0
end
if position == ARGV[3] then return {'ALREADY', position, may_retire()} end
if position ~= ARGV[2] or is_before(ARGV[3], position) then return {'MISMATCH', position, 0} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local open = 0
for i = 0, tonumber(ARGV[6]) - 1 do
  local a, part, lane = 7 + i * 16, KEYS[9 + i * 2], KEYS[10 + i * 2]
  if redis.call('EXISTS', part) == 0 then
    redis.call('HSET', part, 'v', 1, 'state', ARGV[a + 3], 'lane', ARGV[a + 2], 'turn', ARGV[a + 4], 'block', ARGV[a + 5],
      'target_hash', ARGV[a + 6], 'part', ARGV[a + 7], 'session', ARGV[a + 8], 'channel', ARGV[a + 9], 'target', ARGV[a + 10],
      'recipient', ARGV[a + 11], 'body', ARGV[a + 12], 'body_hash', ARGV[a + 13], 'content_type', ARGV[a + 14],
      'guarantee', ARGV[a + 15], 'account', ARGV[a + 16], 'attempts', 0, 'failures', 0,
      'created_at', now, 'age_from', now)
    redis.call('RPUSH', KEYS[7], ARGV[a + 1])
    if ARGV[a + 3] == 'pending' then
      redis.call('HSET', part, 'in_lane', 1)
      redis.call('RPUSH', lane, ARGV[a + 1])
      redis.call('ZADD', KEYS[6], 'NX', now, ARGV[a + 2])
      open = open + 1
    else
      redis.call('HSET', part, 'settled_at', now)
      redis.call('PEXPIRE', part, ARGV[5])
      if ARGV[a + 3] == 'dead' then redis.call('ZADD', KEYS[8], now, ARGV[a + 1]) end
    end
  end
end
if tonumber(ARGV[6]) > 0 then redis.call('PEXPIRE', KEYS[7], ARGV[7]) end
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('HINCRBY', KEYS[4], 'planned', 1)
  redis.call('HINCRBY', KEYS[4], 'open_parts', open)
end
redis.call('HSET', KEYS[2], 'blocks', ARGV[3])
redis.call('XACK', KEYS[3], ARGV[4], ARGV[3])
redis.call('PEXPIRE', KEYS[5], ARGV[5])
return {'OK', ARGV[3], may_retire()}
