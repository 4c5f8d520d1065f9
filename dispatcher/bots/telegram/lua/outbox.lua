-- Move the head of the outbox to the waiting records; one that cannot be delivered is only removed. Repeating it moves nothing twice.
-- KEYS  1 hcli:mem:outbox:<bot>  2 hcli:mem:bot:waiting
-- ARGV  1 bytes of the head  2 field  3 waiting record, "" to remove only
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('LPOP', KEYS[1])
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) end
return 1
