-- KEYS sweep sweeps open; ARGV id
-- Removes a sweep that has ended. Returns its state, nil if there is no such sweep.
local sweep, sweeps, open = unpack(KEYS)
local state = redis.call('HGET', sweep, 'state')
if not state then return false end
if redis.call('SISMEMBER', open, ARGV[1]) == 1 then return state end
local idempotency = redis.call('HGET', sweep, 'idempotency')
if idempotency then redis.call('DEL', idempotency) end
redis.call('DEL', sweep)
redis.call('ZREM', sweeps, ARGV[1])
return state
