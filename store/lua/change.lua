-- ARGV: a command. Behind the fence, for what is one command elsewhere.
return redis.call(unpack(ARGV))
