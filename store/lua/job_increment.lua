-- KEYS job; ARGV field. Returns the new number, or nil if there is no such job.
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
