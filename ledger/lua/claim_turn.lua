#!lua flags=allow-oom
-- claim_turn: take the claim of a turn under a new token, when nobody holds it. Entries of turns that are over are taken away.
-- KEYS  1 turn (hash)   2 requests (stream, group ingest)   3 deadlines (zset)
-- ARGV  1 turn   2 entry   3 worker   4 nonce   5 lease_ms
-- REPLY {CLAIMED, token, the record's fields and values} | {BUSY | ENDED | UNKNOWN_TURN}
-- CRASH before: the claim stays free.  after: a repeat with the same nonce answers the same token; else the lease runs out.

-- include kinds
local wrong = wrong_kind({'hash', 'stream', 'zset'})
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'id', 'ended', 'ingest_token', 'ingest_epoch', 'ingest_lease_until', 'submitted_at',
  'turn_ms', 'silence_ms')
if not turn[1] or turn[2] then
  redis.call('XACK', KEYS[2], 'ingest', ARGV[2])
  redis.call('XDEL', KEYS[2], ARGV[2])
  return {turn[1] and 'ENDED' or 'UNKNOWN_TURN'}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local token = turn[3] or ''
if string.match(token, ':(.*)$') == ARGV[4] then
  redis.call('HSET', KEYS[1], 'ingest_lease_until', now + tonumber(ARGV[5])) -- the reply was lost: ours already
else
  if (tonumber(turn[5]) or 0) > now then return {'BUSY'} end
  local epoch = (tonumber(turn[4]) or 0) + 1
  token = epoch .. ':' .. ARGV[4]
  redis.call('HSETNX', KEYS[1], 'started_at', now)
  redis.call('HSET', KEYS[1], 'state', 'running', 'ingest_epoch', epoch, 'ingest_token', token, 'ingest_worker', ARGV[3],
    'ingest_lease_until', now + tonumber(ARGV[5]), 'claimed_at', now)
  redis.call('ZADD', KEYS[3], math.min(now + tonumber(turn[8]), tonumber(turn[6]) + tonumber(turn[7])), ARGV[1])
end
return {'CLAIMED', token, redis.call('HGETALL', KEYS[1])}
