-- KEYS job assignments; ARGV JSON most amends. Returns 1, or 0 if there is no such job. amends 1:
-- the new assignment replaces the newest one.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[3] == '1' then redis.call('RPOP', KEYS[2]) end
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
return 1
