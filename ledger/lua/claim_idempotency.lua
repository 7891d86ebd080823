#!lua
-- claim_idempotency: bind an idempotency key to a turn, or say to which it is bound.
-- KEYS  1 idem (hash)
-- ARGV  1 turn   2 session   3 body hash   4 ttl_ms   5 tenant
-- REPLY {CREATED | SAME | CONFLICT, turn, session}: those that the key is bound to
-- CRASH before: nothing is bound.  after, before submit: a repeat answers SAME and submits that turn.
local bound = redis.call('HMGET', KEYS[1], 'turn', 'session', 'body')
if bound[1] then return {bound[3] == ARGV[3] and 'SAME' or 'CONFLICT', bound[1], bound[2]} end
redis.call('HSET', KEYS[1], 'turn', ARGV[1], 'session', ARGV[2], 'body', ARGV[3], 'tenant', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'CREATED', ARGV[1], ARGV[2]}
