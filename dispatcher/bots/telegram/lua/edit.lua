-- A message was edited: while its task is queued, it gets the new text. Repeating it changes nothing.
-- KEYS  1 hcli:tasks  2 hcli:mem:bot:seen:<edit>  3 hcli:mem:bot:seen:<message>
-- ARGV  1 task's bytes in the queue  2 its new bytes  3 mark with the new text  4 expiry of the marks in seconds
-- Returns 1 replaced, 0 it is not queued any more.
local place = redis.call('LPOS', KEYS[1], ARGV[1])
if not place then return redis.call('EXISTS', KEYS[2]) end
redis.call('LSET', KEYS[1], place, ARGV[2])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[4])
redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[4])
return 1
