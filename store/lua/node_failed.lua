-- KEYS node events; ARGV name cap reason least_ms most_ms
-- An attempt failed because of this node. From the second consecutive failure on, the node rests,
-- each time twice as long. Returns for how many ms (0: it does not rest), or nil if there is no
-- such node.
local name, cap, reason, least, most = unpack(ARGV)
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local n, rest = redis.call('HINCRBY', KEYS[1], 'failures', 1), 0
redis.call('HSET', KEYS[1], 'failure', reason)
if n > 1 then
  rest = math.min(tonumber(least) * 2 ^ (n - 2), tonumber(most))
  redis.call('HSET', KEYS[1], 'rest_until', string.format('%d', clock() + rest))
end
tell(KEYS[2], cap, name, 'failed')
return rest
