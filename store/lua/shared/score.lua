-- The score in the queue: by priority, then by order of creation. It is exact in a double, because
-- 1e5 * 1e10 < 2^53.
local function score(priority, number)
  return string.format('%.0f', number - priority * 1e10)
end
