-- KEYS gpu; ARGV JSON seconds. The GPU has a key of its own, because browsers hear of every change
-- of a node's document.
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
