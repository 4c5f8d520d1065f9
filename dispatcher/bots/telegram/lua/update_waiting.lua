-- Store how far a delivery has come; a removed record stays removed.
-- KEYS  1 hcli:mem:bot:waiting:<bot>
-- ARGV  1 task id  2 waiting record
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
