-- KEYS node events; ARGV name cap. Its failures are forgotten, and its rest is over. Gives 1, or 0
-- if there were none.
if redis.call('HDEL', KEYS[1], 'failures', 'failure', 'rest_until') == 0 then return 0 end
tell(KEYS[2], ARGV[2], ARGV[1], 'well')
return 1
