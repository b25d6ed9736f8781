-- KEYS job queue events; ARGV id priority queued cap; queued: the name of that state.
-- Gives 1, or 0 if there is no such job.
local job, queue, events = unpack(KEYS)
local id, priority, queued, cap = unpack(ARGV)
local f = redis.call('HMGET', job, 'state', 'number')
if not f[1] then return 0 end
redis.call('HSET', job, 'priority', priority)
if f[1] == queued then
  redis.call('ZADD', queue, score(tonumber(priority), tonumber(f[2])), id)
end
event(events, cap, job, id, '"' .. f[1] .. '"', f[1])
return 1
