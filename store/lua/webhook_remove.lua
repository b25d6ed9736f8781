-- KEYS webhooks queue tries; ARGV id
-- How many webhooks were removed, with all that waits for them.
redis.call('DEL', KEYS[2], KEYS[3])
return redis.call('HDEL', KEYS[1], ARGV[1])
