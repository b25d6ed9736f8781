-- KEYS facts; ARGV cap JSON job. Returns 1, or 0 if there is no such job.
if redis.call('EXISTS', ARGV[3]) == 0 then return 0 end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'j', ARGV[2])
return 1
