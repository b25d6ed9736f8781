-- KEYS beats; ARGV ranks most. Returns {clock, {rank, heartbeat, …}} of the ranks below `ranks`.
-- A writer of heartbeats can write any field, of any size. So the script reads no other field, and
-- returns '' for a heartbeat of more than `most` bytes.
local beats, out = KEYS[1], {}
for r = 0, tonumber(ARGV[1]) - 1 do
  local rank = string.format('%d', r)
  local bytes = redis.call('HSTRLEN', beats, rank)
  if bytes > 0 then
    out[#out + 1] = rank
    out[#out + 1] = bytes <= tonumber(ARGV[2]) and redis.call('HGET', beats, rank) or ''
  end
end
return {string.format('%d', clock()), out}
