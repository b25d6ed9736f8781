-- KEYS beats. Gives {clock, heartbeats}.
return {string.format('%d', clock()), redis.call('HGETALL', KEYS[1])}
