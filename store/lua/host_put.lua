-- KEYS host hosts; ARGV name JSON instance lost_ms
-- A host belongs to one agent: another instance is refused (0) while this one reports.
local name, json, instance, lost = unpack(ARGV)
local now, old = clock(), redis.call('HMGET', KEYS[1], 'instance', 'at')
if old[1] and old[1] ~= instance and now - tonumber(old[2]) < tonumber(lost) then return 0 end
redis.call('HSET', KEYS[1], 'json', json, 'instance', instance, 'at',
  string.format('%d', now))
redis.call('SADD', KEYS[2], name)
return 1
