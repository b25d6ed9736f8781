-- KEYS node nodes events; ARGV name cap. Returns 1, or 0 if there is no such node.
local n = redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
if n == 1 then tell(KEYS[3], ARGV[2], ARGV[1], 'removed') end
return n
