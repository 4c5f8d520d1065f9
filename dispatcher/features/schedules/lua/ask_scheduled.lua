-- Queue a scheduled question, once for each occurrence.
-- KEYS  1 hcli:mem:reminded:<occurrence>  2 hcli:tasks  3 hcli:mem:bot:waiting:<bot>
-- ARGV  1 task JSON  2 task id  3 waiting record, "" if no bot of ours waits  4 seconds for which the occurrence is stored
-- Returns 1 if it is queued, 0 if it was before.
if not redis.call('SET', KEYS[1], '1', 'EX', ARGV[4], 'NX') then return 0 end
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[3], ARGV[2], ARGV[3]) end
redis.call('LPUSH', KEYS[2], ARGV[1]) -- it was due before what is queued; and a dispatcher may not append messages
return 1
