-- An answer was delivered (or never will be): remove its waiting record. Repeating it changes nothing.
-- KEYS  1 hcli:mem:bot:waiting:<bot>  2 hcli:results:<task>  3 hcli:pending:<chat>
-- ARGV  1 task id  2 bytes of the result that was delivered, "" for none
if ARGV[2] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('LREM', KEYS[3], 0, ARGV[1])
return 1
