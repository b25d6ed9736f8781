-- KEYS webhooks queue tries; ARGV id delivery left try most
-- Records a try. `left` is the delivery that still waits, or empty if it is done.
local id, delivery, left, try, most = unpack(ARGV)
if redis.call('HEXISTS', KEYS[1], id) == 0 then return 0 end
if left == '' then
  redis.call('HDEL', KEYS[2], delivery)
else
  redis.call('HSET', KEYS[2], delivery, left)
end
redis.call('LPUSH', KEYS[3], try)
redis.call('LTRIM', KEYS[3], 0, most - 1)
return 1
