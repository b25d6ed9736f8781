-- KEYS webhooks queue; ARGV id delivery JSON most
-- Returns 0 if there is no such webhook, 1 if `most` deliveries wait already, 2 if this one waits
-- now.
local id, delivery, json, most = unpack(ARGV)
if redis.call('HEXISTS', KEYS[1], id) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[2], delivery) == 0 and redis.call('HLEN', KEYS[2]) >= tonumber(most) then
  return 1
end
redis.call('HSETNX', KEYS[2], delivery, json)
return 2
