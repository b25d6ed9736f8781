-- KEYS webhooks; ARGV id JSON most
-- Returns 1, or 0 if there are `most` webhooks already.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
