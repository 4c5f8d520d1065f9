-- Whether this dispatcher may do something now: one at a time, and for so many seconds at most.
-- KEYS  1 hcli:mem:morning
-- ARGV  1 field  2 now  3 seconds
local until_when, now = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or ''), tonumber(ARGV[2])
if until_when and now < until_when and until_when - now <= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], now + tonumber(ARGV[3]))
return 1
