-- The answer to a call whose idempotency key was used before: {1, id} if the body is the same,
-- {2, id} if it is another. nil if the key is new, or there is none.
local function used_before(idempotency, digest)
  local old = idempotency and redis.call('GET', idempotency)
  if not old then return nil end
  local before, its_digest = string.match(old, '^(%S+) (%S+)$')
  if its_digest == digest then return {1, before} end
  return {2, before or ''}
end
