#!lua flags=no-writes
-- check_rights: which of the commands that foldline runs this connection's user may not; nothing is run.
-- KEYS  1 meta (hash)
-- ARGV  1 a channel of ours   then the commands, a subcommand behind a space
-- REPLY the missing ones; a user to whom our keys are closed is not even answered
-- CRASH nothing is written.

-- With enough arguments for any of them: a server looks for the keys of a command where it expects them, and EVAL without any has
-- made servers of two kinds crash.
local missing = {}
for i = 2, #ARGV do
  local name, word = string.match(ARGV[i], '^(%S+) ?(%S*)$')
  local object = string.find(name, 'PUBLISH$') and ARGV[1] or string.find(name, 'SUBSCRIBE$') and ARGV[1] or KEYS[1]
  local words = {name}
  if word ~= '' then words[2] = word end
  for _ = 1, 4 do words[#words + 1] = object end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  -- A command that this server does not have is run nowhere either.
  if known and not allowed then missing[#missing + 1] = object == ARGV[1] and ARGV[i] .. ' ' .. object or ARGV[i] end
end
return missing
