-- Queue a message once a day, whoever calls it how often; also note other fields with it.
-- KEYS  1 hash with the days  2 hcli:mem:outbox:<bot>
-- ARGV  1 field  2 day (2026-11-21)  3 the day after, a later one in the hash is a clock's mistake  4 message JSON, "" for none today
--       5 "1": only if the field is there  then pairs of a field and its value
-- Returns 1 if this was the day's first call.
local last = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[5] == '1' and not last then return 0 end
if last and last >= ARGV[2] and last <= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for at = 6, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
if ARGV[4] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[4]) end
return 1
