-- KEYS rows of some ranks; ARGV the first place of each that stays
for i, rows in ipairs(KEYS) do redis.call('XTRIM', rows, 'MINID', '=', ARGV[i]) end
return #KEYS
