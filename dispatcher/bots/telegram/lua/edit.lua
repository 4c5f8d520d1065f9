-- A message was edited: while its task is queued, it gets the new text; later, the chat is told once that the earlier text counts.
-- KEYS  1 hcli:tasks  2 hcli:mem:bot:waiting:<bot>  3 hcli:mem:bot:seen:<edit>  4 hcli:mem:bot:seen:<message>
-- ARGV  1 id of the edit  2 task's bytes in the queue, "" if it is not there  3 its new bytes  4 mark with the new text
--       5 record of the notice, "" for none  6 mark after the notice  7 expiry of the marks in seconds
-- Returns 1 replaced, 2 notice queued, 0 nothing to do.
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
redis.call('SET', KEYS[3], '1', 'EX', ARGV[7])
local place = ARGV[2] ~= '' and redis.call('LPOS', KEYS[1], ARGV[2])
if place then
  redis.call('LSET', KEYS[1], place, ARGV[3])
  redis.call('SET', KEYS[4], ARGV[4], 'EX', ARGV[7])
  return 1
end
if ARGV[5] == '' then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
redis.call('SET', KEYS[4], ARGV[6], 'EX', ARGV[7])
return 2
