-- Put an entry of KEYS[1] aside into KEYS[2], as it came, with the reason; bytes that are no UTF-8 are written out, since everybody reads text here.
local characters = {
  '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]',
}

local function is_text(word)
  if not string.find(word, '[\128-\255]') then return true end
  for _, one in ipairs(characters) do word = string.gsub(word, one, ' ') end
  return not string.find(word, '[\128-\255]')
end

local function written_out(word)
  if is_text(word) then return word end
  return (string.gsub(word, '[\128-\255]', function(byte) return string.format('\\x%02x', string.byte(byte)) end))
end

-- What was put aside so long ago goes; a time to live alone would begin again with each entry.
local function end_aside(aside_ms)
  local t = redis.call('TIME')
  redis.call('XTRIM', KEYS[2], 'MINID', math.max(0, t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(aside_ms)))
end

local function put_aside(entry, why, kept, aside_ms)
  local fields = {}
  for _, word in ipairs(entry[2]) do
    if #fields < 900 then fields[#fields + 1] = written_out(word) end -- no command takes arguments without end
  end
  for _, word in ipairs({'entry', entry[1], 'why', why}) do fields[#fields + 1] = word end -- behind: of two alike the last counts
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', kept, '*', unpack(fields))
  redis.call('PEXPIRE', KEYS[2], aside_ms)
  redis.call('XACK', KEYS[1], 'gateway', entry[1])
  redis.call('XDEL', KEYS[1], entry[1])
end
