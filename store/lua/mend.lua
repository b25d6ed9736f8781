-- KEYS stream; ARGV ahead_ms. Removes entries whose ids Redis did not make, because they are
-- further ahead of its clock. After an entry with the largest possible id, a stream would accept no
-- others.
-- Returns how many there were.
local first = string.format('%d', clock() + tonumber(ARGV[1]))
local strange = #redis.call('XRANGE', KEYS[1], first, '+')
if strange == 0 then return 0 end
local kept = redis.call('XRANGE', KEYS[1], '-', '(' .. first)
redis.call('DEL', KEYS[1])
for _, entry in ipairs(kept) do
  redis.call('XADD', KEYS[1], entry[1], unpack(entry[2]))
end
return strange
