-- KEYS webhooks queue; ARGV id delivery JSON most
-- 0: the webhook is gone; 1: as many wait already; 2: it waits.
local id, delivery, json, most = unpack(ARGV)
if redis.call('HEXISTS', KEYS[1], id) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[2], delivery) == 0 and redis.call('HLEN', KEYS[2]) >= tonumber(most) then
  return 1
end
redis.call('HSETNX', KEYS[2], delivery, json)
return 2
