-- Put back what is known of a task. Repeating it changes nothing.
-- KEYS  1 hcli:mem:done:<task>  2 hcli:results:<task>  3 hcli:mem:bot:waiting  4 hcli:tasks  5 hcli:mem:inflight:<worker>  6 hcli:mem:busy
--       7 hcli:mem:workers  8 hcli:mem:lease:<worker>
-- ARGV  1 what: "finished", "queued", "claimed"  2 digest  3 seconds of its mark  4 result ("" = delivered)  5 seconds of the result
--       6 record of the waiting bot ("" = none)  7 task id  8 task  9 token  10 chat  11 worker  12 seconds of a lease
if ARGV[6] ~= '' then redis.pcall('HSETNX', KEYS[3], ARGV[7], ARGV[6]) end
if ARGV[1] == 'finished' then
  if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3], 'NX') end
  if ARGV[4] ~= '' then return redis.call('SET', KEYS[2], ARGV[4], 'EX', ARGV[5], 'NX') and 1 or 0 end
  return 0
end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[1] == 'queued' then
  redis.call('RPUSH', KEYS[4], ARGV[8])
  return 1
end
redis.call('HSET', KEYS[5], ARGV[9], ARGV[8])
if ARGV[10] ~= '' then redis.call('HSET', KEYS[6], ARGV[10], ARGV[9]) end
redis.call('SADD', KEYS[7], ARGV[11])
redis.call('SET', KEYS[8], '', 'EX', ARGV[12], 'NX')
return 1
