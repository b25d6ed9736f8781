-- KEYS list; ARGV load, how many are kept, seconds after which they are forgotten. The clock of
-- Redis stands in front of each, since the clocks of hosts need not agree.
redis.call('RPUSH', KEYS[1], string.format('%d', clock()) .. ARGV[1])
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
