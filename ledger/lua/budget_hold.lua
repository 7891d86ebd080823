#!lua flags=allow-oom
-- budget_hold: nobody sends for this account for a while; its channel asked for that. Never shortens a longer hold.
-- KEYS  1 budget (hash)
-- ARGV  1 wait_ms
-- REPLY time until which the account is held
-- CRASH before: nobody is held back.  after: a repeat holds no shorter.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local till = math.max(tonumber(redis.call('HGET', KEYS[1], 'held_until') or 0), now + tonumber(ARGV[1]))
redis.call('HSET', KEYS[1], 'held_until', till)
if redis.call('PTTL', KEYS[1]) < till - now then redis.call('PEXPIRE', KEYS[1], till - now) end
return till
