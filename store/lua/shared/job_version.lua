-- A job's version as store_job_version() prints it.
local function version(job)
  local f = redis.call('HMGET', job, 'state', 'attempt', 'priority', 'revision')
  return f[1] .. '-' .. (f[2] or '0') .. '-' .. (f[3] or '0') .. '-' .. (f[4] or '0')
end
