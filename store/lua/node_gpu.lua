-- KEYS gpu; ARGV JSON seconds. It is no part of the node's document, since browsers are told of
-- every change of that.
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
