-- Begins every script of a coordinator. The last of KEYS is the lease, the last of ARGV the
-- coordinator's fencing token. Once another coordinator has taken the lease, the script fails and
-- changes nothing.
do
  local token = table.remove(ARGV)
  if redis.call('HGET', table.remove(KEYS), 'token') ~= token then
    return redis.error_reply('FENCED the lease is not held by this coordinator')
  end
end
