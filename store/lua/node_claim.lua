-- KEYS claim events claims; ARGV name cap job now. Returns 1, or 0 if another job has the node.
local name, cap, job, now = unpack(ARGV)
local old = redis.call('GET', KEYS[1])
if old then return old == job and 1 or 0 end
redis.call('SET', KEYS[1], job)
redis.call('HSET', KEYS[3], name, now)
tell(KEYS[2], cap, name, 'claimed')
return 1
