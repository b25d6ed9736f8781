-- KEYS lease; ARGV instance. Its token stays, so that the next one is above it. Gives 1, or 0 if it
-- is another instance's.
if redis.call('HGET', KEYS[1], 'instance') ~= ARGV[1] then return 0 end
return redis.call('HDEL', KEYS[1], 'instance', 'who', 'at')
