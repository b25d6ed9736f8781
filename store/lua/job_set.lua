-- KEYS job; ARGV field, value (none: removes the field). Returns 1, or 0 if there is no such job.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
