-- KEYS claim events claims job accounting
-- ARGV name cap job now days; days: the prefix of the keys of accounting's days
-- Returns 1, or 0 if the job does not have the node. Books the use in the same call, so that it
-- counts once.
local claim, events, claims, job, accounting = unpack(KEYS)
local name, cap, id, now, days = unpack(ARGV)
if redis.call('GET', claim) ~= id then return 0 end
local from = tonumber(redis.call('HGET', claims, name) or now)
redis.call('DEL', claim)
redis.call('HDEL', claims, name)
if from < tonumber(now) then
  local f = redis.call('HMGET', job, 'name', 'owner')
  redis.call('HSETNX', accounting, id, cjson.encode({name = f[1] or '', owner = f[2] or ''}))
end
each_day(from, tonumber(now), function(day, ms)
  redis.call('HINCRBY', days .. day, id, ms)
end)
tell(events, cap, name, 'released')
return 1
