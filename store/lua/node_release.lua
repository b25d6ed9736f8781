-- KEYS claim events; ARGV name cap job. Gives 1, or 0 if the job has not the node.
local name, cap, job = unpack(ARGV)
if redis.call('GET', KEYS[1]) ~= job then return 0 end
redis.call('DEL', KEYS[1])
tell(KEYS[2], cap, name, 'released')
return 1
