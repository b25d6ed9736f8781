-- KEYS box; ARGV text lifetime most. Keeps the newest `most` messages. Returns their number before
-- that.
local n = redis.call('RPUSH', KEYS[1], ARGV[1])
if n > tonumber(ARGV[3]) then redis.call('LTRIM', KEYS[1], -tonumber(ARGV[3]), -1) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return n
