-- In front of every script of a coordinator. The last of KEYS is the lease, the last of ARGV the
-- coordinator's fencing token: once another coordinator has taken the lease, nothing is changed.
do
  local token = table.remove(ARGV)
  if redis.call('HGET', table.remove(KEYS), 'token') ~= token then
    return redis.error_reply('FENCED the lease is not held by this coordinator')
  end
end
