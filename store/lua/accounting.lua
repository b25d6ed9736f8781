-- KEYS claims accounting; ARGV first last now, days, claim, job: prefixes of their keys
-- Returns {day, id, ms, ABOUT, …} of the days from first to last. It includes the use so far of
-- claims that still hold. ABOUT: JSON with name and owner.
local claims, accounting = unpack(KEYS)
local first, last, now, days, claim, job = unpack(ARGV)
local out = {}
local function put(day, id, ms, about)
  for _, v in ipairs({day, id, ms, about}) do out[#out + 1] = v end
end
for day = tonumber(first), tonumber(last) do
  local text = string.format('%d', day)
  local all = redis.call('HGETALL', days .. text)
  for i = 1, #all, 2 do
    put(text, all[i], all[i + 1], redis.call('HGET', accounting, all[i]) or '{}')
  end
end
local held = redis.call('HGETALL', claims)
for i = 1, #held, 2 do
  local id = redis.call('GET', claim .. held[i])
  local f = id and redis.call('HMGET', job .. id, 'name', 'owner')
  each_day(tonumber(held[i + 1]), tonumber(now), function(day, ms)
    if f and tonumber(day) >= tonumber(first) and tonumber(day) <= tonumber(last) then
      put(day, id, ms, cjson.encode({name = f[1] or '', owner = f[2] or ''}))
    end
  end)
end
return out
