-- KEYS sweep open; ARGV id from to ended jobs finished
-- Writes the list of jobs, unless it is "", and changes the state to `to` if it is `from`. `ended`:
-- "1" if `to` is an end. Returns the previous state, nil if there is no such sweep.
local sweep, open = unpack(KEYS)
local id, from, to, ended, jobs, finished = unpack(ARGV)
local state = redis.call('HGET', sweep, 'state')
if not state then return false end
if jobs ~= '' then redis.call('HSET', sweep, 'jobs', jobs) end
if state == from and from ~= to then
  redis.call('HSET', sweep, 'state', to)
  if ended == '1' then
    redis.call('HSET', sweep, 'finished', finished)
    redis.call('SREM', open, id)
  end
end
return state
