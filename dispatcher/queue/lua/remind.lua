-- Queue an unsolicited message for the bot, once for each id.
-- KEYS  1 hcli:mem:reminded:<id>  2 hcli:mem:outbox:<bot>
-- ARGV  1 message JSON  2 seconds for which the id is stored
if redis.call('SET', KEYS[1], '1', 'EX', ARGV[2], 'NX') then return redis.call('RPUSH', KEYS[2], ARGV[1]) end
return 0
