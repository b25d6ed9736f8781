-- KEYS rows beats facts
-- ARGV job cap rows rank beat control bytes seal facts_cap fact: packed rows or "", a sealed
-- heartbeat or "", the key of the control document or "", the length of a packed row, the seal of
-- the rows, a sealed fact or "".
-- The keys of the job and of its control document are arguments, not KEYS: a user of Redis who may
-- only read them could not call the script otherwise. Returns {1, control}, or {0} if there is no
-- such job.
local rows, beats, facts = unpack(KEYS)
local job, cap, packed, rank, beat, control, bytes, seal, facts_cap, fact = unpack(ARGV)
if redis.call('EXISTS', job) == 0 then return {0, false} end
-- The fact goes first. If the stream of rows then fails, the fact comes again, and its reader drops
-- it by its number.
if fact ~= '' then
  redis.call('XADD', facts, 'MAXLEN', '~', facts_cap, '*', 'j', fact)
end
if packed ~= '' then
  redis.call('XADD', rows, 'MAXLEN', '~', cap, '*', 'r', packed, 'bytes', bytes, 'seal', seal)
end
if beat ~= '' then
  redis.call('HSET', beats, rank, string.format('%d ', clock()) .. beat)
end
return {1, control ~= '' and redis.call('GET', control)}
