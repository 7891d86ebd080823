#!lua flags=allow-oom
-- hint: tell gateways of new frames, by several messages in their order.
-- KEYS  1 channel
-- ARGV  1 PUBLISH | SPUBLISH   then the messages
-- REPLY how many listen here
-- CRASH before: gateways find the frames by themselves.  after: a repeat tells them again, which they see by the frames' numbers.
local listeners = 0
for i = 2, #ARGV do listeners = redis.call(ARGV[1], KEYS[1], ARGV[i]) end
return listeners
