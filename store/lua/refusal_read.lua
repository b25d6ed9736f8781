-- KEYS refusals; ARGV lifetime_ms. Returns a flat list, by host: JSON and age in ms.
local now, names, out = clock(), redis.call('HKEYS', KEYS[1]), {}
table.sort(names)
for _, name in ipairs(names) do
  local at, json = string.match(redis.call('HGET', KEYS[1], name), '^(%d+) (.*)$')
  if at and now - at <= tonumber(ARGV[1]) then
    out[#out + 1] = json
    out[#out + 1] = string.format('%d', now - at)
  end
end
return out
