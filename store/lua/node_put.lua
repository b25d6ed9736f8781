-- KEYS nodes events, then one for each node; ARGV cap lost_ms, then name and JSON of each
-- Browsers hear of a node that is new, was lost or has changed, but not of each heartbeat.
local now, cap, lost = clock(), ARGV[1], tonumber(ARGV[2])
for i = 3, #KEYS do
  local name, json = ARGV[2 * i - 3], ARGV[2 * i - 2]
  local old = redis.call('HMGET', KEYS[i], 'json', 'at')
  redis.call('HSET', KEYS[i], 'json', json, 'at', string.format('%d', now))
  redis.call('SADD', KEYS[1], name)
  if old[1] ~= json then
    tell(KEYS[2], cap, name, 'put')
  elseif now - tonumber(old[2] or '0') > lost then
    tell(KEYS[2], cap, name, 'back')
  end
end
return 1
