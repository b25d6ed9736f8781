-- KEYS sweep sweeps open idempotency (or none)
-- ARGV id document owner state created score digest lifetime
-- Returns {0, id}; {1, id} if the idempotency key was used with this document, {2, id} if it was
-- used with another one; {3} if the id is taken.
local sweep, sweeps, open, idempotency = unpack(KEYS)
local id, document, owner, state, created, score, digest, lifetime = unpack(ARGV)
local answered = used_before(idempotency, digest)
if answered then return answered end
if redis.call('EXISTS', sweep) == 1 then return {3, ''} end
if idempotency then
  redis.call('SET', idempotency, id .. ' ' .. digest, 'NX', 'EX', lifetime)
  redis.call('HSET', sweep, 'idempotency', idempotency)
end
redis.call('HSET', sweep, 'document', document, 'owner', owner, 'state', state, 'created', created,
  'jobs', '[]')
redis.call('ZADD', sweeps, score, id)
redis.call('SADD', open, id)
return {0, id}
