-- KEYS refusals; ARGV host JSON most lifetime_ms. A value is "TIME JSON".
local host, json, most, lifetime = unpack(ARGV)
redis.call('HSET', KEYS[1], host, string.format('%d ', clock()) .. json)
while redis.call('HLEN', KEYS[1]) > tonumber(most) do
  local all, oldest, least = redis.call('HGETALL', KEYS[1]), nil, nil
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '^%d+')) or 0
    if not least or at < least then oldest, least = all[i], at end
  end
  redis.call('HDEL', KEYS[1], oldest)
end
return redis.call('PEXPIRE', KEYS[1], lifetime)
