-- KEYS host hosts; ARGV name JSON instance lost_ms
-- A host belongs to one agent: another instance is refused (0) while this one reports.
local name, json, instance, lost = unpack(ARGV)
-- If the clock was set back, the host's silence counts from this call.
local now, old = clock(), redis.call('HMGET', KEYS[1], 'instance', 'at')
local at = tonumber(old[2] or '0')
if old[1] and old[1] ~= instance and now - at < tonumber(lost) then
  if at > now then redis.call('HSET', KEYS[1], 'at', string.format('%d', now)) end
  return 0
end
redis.call('HSET', KEYS[1], 'json', json, 'instance', instance, 'at',
  string.format('%d', now))
redis.call('SADD', KEYS[2], name)
return 1
