-- The last entry that a group of a stream was handed; nothing when there is no such group, or no stream yet.
local function position_of(stream, name)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, group in ipairs(groups) do
    if group[2] == name then
      for i = 1, #group, 2 do
        if group[i] == 'last-delivered-id' then return group[i + 1] end
      end
    end
  end
end
