-- The event that browsers get when a node changes.
local function tell(events, cap, name, what)
  redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'job', '', 'type', 'node', 'j',
    '{"name":' .. cjson.encode(name) .. ',"change":"' .. what .. '"}')
end
