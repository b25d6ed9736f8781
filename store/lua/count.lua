-- KEYS nodes events, then the index of each state. Returns the jobs of each state, nodes, events.
local out = {}
for i = 3, #KEYS do out[#out + 1] = redis.call('ZCARD', KEYS[i]) end
out[#out + 1] = redis.call('SCARD', KEYS[1])
out[#out + 1] = redis.call('XLEN', KEYS[2])
return out
