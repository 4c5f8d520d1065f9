-- Remove a task from the queue and answer it ourselves. Repeating it changes nothing.
-- KEYS  1 hcli:tasks  2 hcli:results:<task>
-- ARGV  1 the task's bytes  2 signed result  3 its expiry in seconds
-- Returns 1 if it was queued.
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
