-- The event that browsers get when a job changes. `from` is JSON: a quoted state, or null.
local function event(events, cap, job, id, from, to)
  local f = redis.call('HMGET', job, 'name', 'attempt', 'error', 'priority', 'tags')
  local j = '{"id":' .. cjson.encode(id) .. ',"name":' .. cjson.encode(f[1] or '') ..
    ',"from":' .. from .. ',"state":"' .. to .. '","attempt":' .. (f[2] or '0') ..
    ',"priority":' .. (f[4] or '0') .. ',"tags":' .. (f[5] or '[]') ..
    ',"error":' .. (f[3] or 'null') .. '}'
  redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'job', id, 'type', 'job', 'j', j)
end
