-- KEYS lease; ARGV instance who token length_ms dead store
-- Takes the coordinator's lease (token 0), or renews it. It is free when nobody holds it, after
-- length_ms without renewal, and when its holder is `dead`, an instance known to have ended. The
-- holder keeps its token however late it renews, unless another one has taken the lease meanwhile.
-- A store that was emptied forgets tokens; the next one is above the caller's. Where its clock was
-- set back, a lease begins anew, and does not last until the clock is where it was.
-- `store` is the store's name from then on, if it has none.
-- Gives {1, token}, or {0, token, instance, who, age in ms} of the holder.
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
