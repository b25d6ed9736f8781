-- KEYS nodes; ARGV prefixes of the keys of nodes, claims and GPUs, then names, or none for all
-- Returns {clock, {name, hash, claim, gpu}, …}.
local nodes, claims, gpus = unpack(ARGV, 1, 3)
local names = {unpack(ARGV, 4)}
if #names == 0 then names = redis.call('SMEMBERS', KEYS[1]) end
local out = {string.format('%d', clock())}
for _, name in ipairs(names) do
  out[#out + 1] = {name, redis.call('HGETALL', nodes .. name),
    redis.call('GET', claims .. name), redis.call('GET', gpus .. name)}
end
return out
