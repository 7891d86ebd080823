-- Whether one stream id lies before another.
local function is_before(a, b)
  local a1, a2 = string.match(a, '^(%d+)%-(%d+)$')
  local b1, b2 = string.match(b, '^(%d+)%-(%d+)$')
  a1, b1 = tonumber(a1), tonumber(b1)
  return a1 < b1 or (a1 == b1 and tonumber(a2) < tonumber(b2))
end
