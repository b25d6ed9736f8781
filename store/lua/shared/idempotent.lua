-- What a call answers whose idempotency key was used before: {1, id} if it was for the same body,
-- {2, id} for another; nil for a key that is new, or none.
local function used_before(idempotency, digest)
  local old = idempotency and redis.call('GET', idempotency)
  if not old then return nil end
  local before, its_digest = string.match(old, '^(%S+) (%S+)$')
  if its_digest == digest then return {1, before} end
  return {2, before or ''}
end
