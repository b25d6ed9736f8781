-- KEYS job queue events; ARGV id priority queued cap seen; queued: the name of that state; seen: the
-- version that the caller saw, or "".
-- Gives 1, 0 if there is no such job, or -1 if it is not the version that was seen.
local job, queue, events = unpack(KEYS)
local id, priority, queued, cap, seen = unpack(ARGV)
local f = redis.call('HMGET', job, 'state', 'number')
if not f[1] then return 0 end
if seen ~= '' and seen ~= version(job) then return -1 end
redis.call('HSET', job, 'priority', priority)
if f[1] == queued then
  redis.call('ZADD', queue, score(tonumber(priority), tonumber(f[2])), id)
end
event(events, cap, job, id, '"' .. f[1] .. '"', f[1])
return 1
