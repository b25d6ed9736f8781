-- KEYS node events; ARGV name cap field, value (none: removes the field). Returns 1, or 0 if there
-- is no such node.
local name, cap, field, value = unpack(ARGV)
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if value then
  redis.call('HSET', KEYS[1], field, value)
else
  redis.call('HDEL', KEYS[1], field)
end
tell(KEYS[2], cap, name, 'set')
return 1
