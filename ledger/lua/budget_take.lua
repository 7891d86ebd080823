#!lua flags=allow-oom
-- budget_take: take one send out of an account's rate budget, or learn how long to wait for it.
-- KEYS  1 budget (hash)
-- ARGV  1 sends per second, in thousandths (0: unlimited)   2 burst
-- REPLY milliseconds to wait; 0 when one was taken
-- CRASH after: one send of the budget is lost, nothing else.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local b = redis.call('HMGET', KEYS[1], 'tokens', 'at', 'held_until')
if b[3] and tonumber(b[3]) > now then return tonumber(b[3]) - now end
local rate, burst = tonumber(ARGV[1]) / 1000000, tonumber(ARGV[2]) -- sends per millisecond
if rate <= 0 then return 0 end
local tokens = math.min(burst, tonumber(b[1] or burst) + math.max(0, now - tonumber(b[2] or now)) * rate)
if tokens < 1 then return math.ceil((1 - tokens) / rate) end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens - 1), 'at', now)
redis.call('PEXPIRE', KEYS[1], math.max(1000, math.ceil(burst / rate)))
return 0
