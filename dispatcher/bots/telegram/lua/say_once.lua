-- Queue a message of the bot once for as long as a mark lasts.
-- KEYS  1 hcli:mem:bot:waiting:<bot>  2 hcli:mem:bot:told:<chat> or hcli:mem:bot:seen:<album>
-- ARGV  1 field  2 waiting record  3 expiry of the mark in seconds
-- Returns 1 if it was queued now.
if not redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
