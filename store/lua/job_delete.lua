-- KEYS jobs queue events, then every key of the job, its own first
-- ARGV id cap state_prefix ended ranks seen, then prefixes of keys that each rank may have
-- `ended`: the states in which a job may be deleted, each between spaces; `seen`: the version that
-- the caller saw, or "". Returns the job's previous state, nil if there is no such job, or "seen"
-- if the job has another version.
local jobs, queue, events, job = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, cap, state_prefix, ended, ranks, seen = unpack(ARGV, 1, 6)
local f = redis.call('HMGET', job, 'state', 'idempotency')
local state = f[1]
if not state then return false end
if not string.find(ended, ' ' .. state .. ' ', 1, true) then return state end
if seen ~= '' and seen ~= version(job) then return 'seen' end
if f[2] then redis.call('DEL', f[2]) end
redis.call('UNLINK', unpack(KEYS, 4))
for p = 7, #ARGV do
  for at = 0, tonumber(ranks) - 1, 512 do
    local some = {}
    for r = at, at + 511 do some[#some + 1] = ARGV[p] .. r end
    redis.call('UNLINK', unpack(some))
  end
end
redis.call('ZREM', jobs, id)
redis.call('ZREM', queue, id)
redis.call('ZREM', state_prefix .. state, id)
redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'job', id, 'type', 'deleted', 'j',
  '{"id":' .. cjson.encode(id) .. '}')
return state
