-- KEYS facts; ARGV the first id that stays, and how many may stay beside: as long as there are no
-- more, nothing goes, so that somebody who looks for a cause finds the facts of a short job.
if redis.call('XLEN', KEYS[1]) <= tonumber(ARGV[2]) then return 0 end
return redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[1])
