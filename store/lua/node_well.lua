-- KEYS node events; ARGV name cap. Forgets the node's failures and ends its rest. Returns 1, or 0
-- if it had no failures.
if redis.call('HDEL', KEYS[1], 'failures', 'failure', 'rest_until') == 0 then return 0 end
tell(KEYS[2], ARGV[2], ARGV[1], 'well')
return 1
