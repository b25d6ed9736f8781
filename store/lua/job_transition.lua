-- KEYS job queue events state:from state:to
-- ARGV id from to now error started ended cleared queued cap. "1" or "0": `started`, the job starts
-- now; `ended`, it has ended; `cleared`, its last error is removed; `queued`, it waits in the
-- queue.
-- Returns the job's previous state, or nil. Changes nothing unless that is `from`.
local job, queue, events, index_from, index_to = unpack(KEYS)
local id, from, to, now, failure, started, ended, cleared, queued, cap = unpack(ARGV)
local f = redis.call('HMGET', job, 'state', 'number', 'priority')
if not f[1] then return false end
if f[1] ~= from then return f[1] end
local number = tonumber(f[2] or '0')
redis.call('HSET', job, 'state', to)
if started == '1' then redis.call('HSETNX', job, 'started', now) end
if ended == '1' then redis.call('HSET', job, 'finished', now) end
if failure ~= '' then
  redis.call('HSET', job, 'error', failure)
elseif cleared == '1' then
  redis.call('HDEL', job, 'error')
end
redis.call('ZREM', index_from, id)
redis.call('ZADD', index_to, number, id)
if queued == '1' then
  redis.call('ZADD', queue, score(tonumber(f[3] or '0'), number), id)
else
  redis.call('ZREM', queue, id)
end
event(events, cap, job, id, '"' .. f[1] .. '"', to)
return f[1]
