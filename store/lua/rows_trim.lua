-- KEYS rows of some ranks; ARGV for each the first id that stays
for i, rows in ipairs(KEYS) do redis.call('XTRIM', rows, 'MINID', '=', ARGV[i]) end
return #KEYS
