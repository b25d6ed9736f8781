-- KEYS host hosts; ARGV name instance. Gives 1, or 0 if it is another instance's.
if redis.call('HGET', KEYS[1], 'instance') ~= ARGV[2] then return 0 end
redis.call('SREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
