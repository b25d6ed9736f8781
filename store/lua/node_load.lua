-- KEYS lists; ARGV for each: load, how many are kept, seconds after which they are forgotten. Each
-- load begins with the time of Redis, because the clocks of hosts need not agree.
local now = string.format('%d', clock())
for i, list in ipairs(KEYS) do
  local load, kept, seconds = unpack(ARGV, 3 * i - 2, 3 * i)
  redis.call('RPUSH', list, now .. load)
  redis.call('LTRIM', list, -tonumber(kept), -1)
  redis.call('EXPIRE', list, seconds)
end
return 1
