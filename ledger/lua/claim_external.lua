#!lua flags=allow-oom
-- claim_external: give a turn's external producer a new token; whoever held the old one is refused from here on.
-- KEYS  1 turn (hash)
-- ARGV  1 nonce
-- REPLY {CLAIMED, token, next seq, cancel: 1 | 0} | {ENDED | UNKNOWN_TURN | NOT_EXTERNAL}
-- CRASH before: the old token holds.  after: a repeat with the same nonce answers the same token; else another claim makes a new one.

-- include kinds
local wrong = wrong_kind({'hash'})
if wrong then return wrong end
local turn = redis.call('HMGET', KEYS[1], 'id', 'ended', 'external_token', 'ingest_epoch', 'next:external', 'cancel')
if not turn[1] then return {'UNKNOWN_TURN'} end
if not turn[3] then return {'NOT_EXTERNAL'} end
if turn[2] then return {'ENDED'} end
local token = turn[3]
if string.match(token, ':(.*)$') ~= ARGV[1] then
  local t = redis.call('TIME')
  local epoch = (tonumber(turn[4]) or 0) + 1
  token = epoch .. ':' .. ARGV[1]
  redis.call('HSET', KEYS[1], 'external_token', token, 'ingest_epoch', epoch, 'claimed_at', t[1] * 1000 + math.floor(t[2] / 1000))
end
return {'CLAIMED', token, tonumber(turn[5]) or 0, turn[6] and 1 or 0}
