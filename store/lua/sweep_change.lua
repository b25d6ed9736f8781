-- KEYS sweep open; ARGV id from to ended jobs finished
-- Writes the list of jobs, unless it is "", and goes from one state to another, unless it is in a
-- third. `ended`: "1" if `to` is an end. Gives the state that it was in, nil if there is none.
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
