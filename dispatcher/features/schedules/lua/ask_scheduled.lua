-- Queue a scheduled question, once for each occurrence, unless the chat has asked as many as it may today: then it is told so, once a day.
-- KEYS  1 hcli:mem:reminded:<occurrence>  2 hcli:tasks  3 hcli:mem:bot:waiting  4 hcli:mem:scheduled:<day>:<chat>  5 hcli:mem:outbox:<bot>
-- ARGV  1 task JSON  2 task id  3 waiting record, "" if no bot of ours waits  4 the most a day  5 message JSON for one too many
--       6 seconds for which the occurrence is stored  7 seconds for which the counter is
-- Returns 1 if it is queued, 0 if it was before, -1 if it is one too many.
if not redis.call('SET', KEYS[1], '1', 'EX', ARGV[6], 'NX') then return 0 end
local asked = redis.call('INCR', KEYS[4])
redis.call('EXPIRE', KEYS[4], ARGV[7])
if asked > tonumber(ARGV[4]) then
  if asked == tonumber(ARGV[4]) + 1 then redis.call('RPUSH', KEYS[5], ARGV[5]) end
  return -1
end
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[3], ARGV[2], ARGV[3]) end
redis.call('LPUSH', KEYS[2], ARGV[1]) -- it was due before what is queued; and a dispatcher may not append messages
return 1
