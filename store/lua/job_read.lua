-- KEYS of each job: its own and that of its live document. Gives {hash, live} of each.
local out = {}
for i = 1, #KEYS, 2 do
  out[#out + 1] = {redis.call('HGETALL', KEYS[i]), redis.call('GET', KEYS[i + 1])}
end
return out
