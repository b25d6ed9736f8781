-- KEYS webhooks; ARGV id JSON most
-- 1: it is there; 0: there are that many already.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
