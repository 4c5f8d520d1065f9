-- Take, renew or release the lease of the bot of this Redis.
-- KEYS  1 hcli:mem:bot:owner:<bot>
-- ARGV  1 process  2 expiry in seconds, 0 to release it
-- Returns 1 if this process holds the lease (or held it, when releasing).
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
return 1
