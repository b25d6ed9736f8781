-- KEYS lease; ARGV instance who token length_ms dead store
-- Takes the coordinator's lease (token 0), or renews it. The lease is free if nobody holds it,
-- after length_ms without renewal, or if its holder is `dead`, an instance known to have ended.
-- However late the holder renews, it keeps its token, unless another instance has taken the lease.
-- An emptied store forgets tokens, so the next token is above the caller's too. If the clock was
-- set back, a lease starts again at the new time. `store` names the store, if it has no name yet.
-- Returns {1, token}, or {0, token, instance, who, age in ms} of the holder.
local lease = KEYS[1]
local instance, who, mine, length, dead, store = unpack(ARGV)
local now = clock()
local f = redis.call('HMGET', lease, 'instance', 'who', 'at', 'token')
local holder, token = f[1], tonumber(f[4] or '0')
local age = holder and now - tonumber(f[3]) or 0
if age < 0 then
  redis.call('HSET', lease, 'at', string.format('%d', now))
  age = 0
end
local taken
if tonumber(mine) > 0 then
  taken = holder ~= instance and (holder or token > tonumber(mine))
else
  taken = holder and holder ~= instance and holder ~= dead and age <= tonumber(length)
end
if taken then return {0, token, holder or '', f[2] or '', age} end
if holder ~= instance then
  token = math.max(token, tonumber(mine)) + 1
  redis.call('HSET', lease, 'instance', instance, 'token', string.format('%d', token))
end
if store ~= '' then redis.call('HSETNX', lease, 'store', store) end
redis.call('HSET', lease, 'who', who, 'at', string.format('%d', now))
return {1, token}
