-- KEYS job jobs queue state:queued events number idempotency (or none)
-- ARGV id spec name state priority created digest lifetime cap tags note owner; state: the first
-- one; tags, note, owner: "" if there are none
-- Returns {0, id}; {1, id} if the idempotency key was used with this spec, {2, id} if it was used
-- with another one; {3} if the id is taken.
local job, jobs, queue, queued, events, numbers, idempotency = unpack(KEYS)
local id, spec, name, state, priority, created, digest, lifetime, cap = unpack(ARGV, 1, 9)
local tags, note, owner = unpack(ARGV, 10)
local answered = used_before(idempotency, digest)
if answered then return answered end
if redis.call('EXISTS', job) == 1 then return {3, ''} end
if idempotency then
  redis.call('SET', idempotency, id .. ' ' .. digest, 'NX', 'EX', lifetime)
end
local number = redis.call('INCR', numbers)
redis.call('HSET', job, 'spec', spec, 'name', name, 'state', state, 'attempt', 0,
  'restarts', 0, 'priority', priority, 'created', created, 'number', number)
if idempotency then redis.call('HSET', job, 'idempotency', idempotency) end
if tags ~= '' then redis.call('HSET', job, 'tags', tags) end
if note ~= '' then redis.call('HSET', job, 'note', note) end
if owner ~= '' then redis.call('HSET', job, 'owner', owner) end
redis.call('ZADD', jobs, number, id)
redis.call('ZADD', queue, score(tonumber(priority), number), id)
redis.call('ZADD', queued, number, id)
event(events, cap, job, id, 'null', state)
return {0, id}
