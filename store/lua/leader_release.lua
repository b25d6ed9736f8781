-- KEYS lease; ARGV instance. Keeps the token, so that the next one is above it. Returns 1, or 0 if
-- another instance holds the lease.
if redis.call('HGET', KEYS[1], 'instance') ~= ARGV[1] then return 0 end
return redis.call('HDEL', KEYS[1], 'instance', 'who', 'at')
