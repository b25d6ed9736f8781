-- KEYS host hosts; ARGV name instance. Returns 1, or 0 if the host belongs to another instance.
if redis.call('HGET', KEYS[1], 'instance') ~= ARGV[2] then return 0 end
redis.call('SREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
