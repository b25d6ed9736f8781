-- ARGV: a command. The fence checks it, as it does every script of a coordinator.
return redis.call(unpack(ARGV))
