-- A key of a foreign kind would make a command fail after earlier writes, which Lua does not take back. So it is found first.
local function wrong_kind(kinds)
  for i, kind in ipairs(kinds) do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ', expected a ' .. kind)
    end
  end
end
