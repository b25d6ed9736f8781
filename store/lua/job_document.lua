-- KEYS job document; ARGV field, JSON (none: removes it). field "": the document is the key itself.
-- Returns 1, or 0 if there is no such job.
local job, document = unpack(KEYS)
local field, json = unpack(ARGV)
if redis.call('EXISTS', job) == 0 then return 0 end
if field ~= '' and json then
  redis.call('HSET', document, field, json)
elseif field ~= '' then
  redis.call('HDEL', document, field)
elseif json then
  redis.call('SET', document, json)
else
  redis.call('DEL', document)
end
return 1
