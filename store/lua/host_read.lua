-- KEYS hosts; ARGV prefix of hosts' keys, then names, or none for all. Returns a flat list: JSON
-- and age in ms of each.
local now, out, names = clock(), {}, {unpack(ARGV, 2)}
if #names == 0 then names = redis.call('SMEMBERS', KEYS[1]) end
for _, name in ipairs(names) do
  local h = redis.call('HMGET', ARGV[1] .. name, 'json', 'at')
  if h[1] then
    out[#out + 1] = h[1]
    out[#out + 1] = string.format('%d', now - tonumber(h[2]))
  end
end
return out
