-- Put a dead letter back where it came from, as if it had never been tried. Repeating it changes nothing.
-- KEYS  1 hcli:mem:dead  2 hcli:tasks or hcli:mem:tags  3 hcli:mem:done:<task>  4 hcli:mem:attempts:<task>  5 hcli:results:<task>
--       6 hcli:mem:bot:waiting:<bot>  7 hcli:mem:cancel:<task>
-- ARGV  1 the dead letter's bytes  2 bytes to queue  3 digest of the task, "" for tags  4 task id  5 waiting record, "" if it did not come from our bot
-- Returns 1 if it is queued now, 0 if it is no longer a dead letter, -1 if its id belongs to another message: then nothing is written.
local done = redis.call('GET', KEYS[3])
if ARGV[3] ~= '' and done and done ~= ARGV[3] then return -1 end
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return 0 end
if ARGV[3] ~= '' then -- the apology is removed as well: else it would be taken for the answer
  redis.call('DEL', KEYS[3])
  redis.call('DEL', KEYS[4])
  redis.call('DEL', KEYS[5])
  redis.call('DEL', KEYS[7]) -- an earlier cancellation meant the earlier attempt
  if ARGV[5] ~= '' then redis.call('HSETNX', KEYS[6], ARGV[4], ARGV[5]) end
end
redis.call('RPUSH', KEYS[2], ARGV[2])
return 1
