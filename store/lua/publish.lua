-- KEYS job live detail events
-- ARGV id cap, then for each document: its field ("live", or a field of the details; "": none), the
-- event's type ("": none), JSON. Returns 1, or 0 if there is no such job.
local job, live, detail, events = unpack(KEYS)
local id, cap = ARGV[1], ARGV[2]
if redis.call('EXISTS', job) == 0 then return 0 end
for i = 3, #ARGV, 3 do
  local document, kind, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if document == 'live' then
    redis.call('SET', live, text)
  elseif document ~= '' then
    redis.call('HSET', detail, document, text)
  end
  if kind ~= '' then
    redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'job', id, 'type', kind, 'j', text)
  end
end
return 1
