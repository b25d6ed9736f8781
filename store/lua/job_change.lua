-- KEYS job queue events
-- ARGV id queued cap seen ended, then the fields to change, each with its value. queued: the name
-- of that state; seen: the version that the caller saw, or ""; ended: states of a job that has
-- ended, each between spaces. An empty value removes the field.
-- Returns 1; 0 if there is no such job; -1 if the job has another version than `seen`; or the job's
-- state if it has ended and its priority cannot change.
local job, queue, events = unpack(KEYS)
local id, queued, cap, seen, ended = unpack(ARGV, 1, 5)
local f = redis.call('HMGET', job, 'state', 'number')
if not f[1] then return 0 end
if seen ~= '' and seen ~= version(job) then return -1 end
for i = 6, #ARGV, 2 do
  if ARGV[i] == 'priority' and ended:find(' ' .. f[1] .. ' ', 1, true) then return f[1] end
end
for i = 6, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if value == '' then redis.call('HDEL', job, field) else redis.call('HSET', job, field, value) end
  if field == 'priority' and f[1] == queued then
    redis.call('ZADD', queue, score(tonumber(value), tonumber(f[2])), id)
  end
end
redis.call('HINCRBY', job, 'revision', 1)
event(events, cap, job, id, '"' .. f[1] .. '"', f[1])
return 1
