-- KEYS index; ARGV newest_first bound count prefix of jobs' keys
-- Gives id name priority number … of the jobs beyond the bound, flat.
local index = KEYS[1]
local newest_first, bound, count, prefix = unpack(ARGV)
local ids
if newest_first == '1' then
  ids = redis.call('ZREVRANGEBYSCORE', index, '(' .. bound, '-inf', 'LIMIT', 0, count)
else
  ids = redis.call('ZRANGEBYSCORE', index, '(' .. bound, '+inf', 'LIMIT', 0, count)
end
local out = {}
for _, id in ipairs(ids) do
  local f = redis.call('HMGET', prefix .. id, 'name', 'priority', 'number')
  out[#out + 1] = id
  out[#out + 1] = f[1] or ''
  out[#out + 1] = f[2] or '0'
  out[#out + 1] = f[3] or '0'
end
return out
