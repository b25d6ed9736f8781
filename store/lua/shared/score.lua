-- The place in the queue: priority first, then the order of creation. Exact in a double, since
-- 1e5 * 1e10 < 2^53.
local function score(priority, number)
  return string.format('%.0f', number - priority * 1e10)
end
