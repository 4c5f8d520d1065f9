-- Remove a task from the queue, or from a dead worker, and answer it. Repeating it changes nothing.
-- KEYS  1 hcli:tasks  2 hcli:mem:inflight:<worker>  3 hcli:mem:lease:<worker>  4 hcli:mem:busy  5 hcli:results:<task>  6 hcli:mem:done:<task>
-- ARGV  1 the task's bytes  2 claim token ("" = it is queued)  3 chat (its lock)  4 signed result, "" for none  5 its expiry in seconds
--       6 digest of the task  7 how long it is remembered, in seconds  8 9 10 the existing result (existing_result.lua, included before this)
-- Returns 1 if it was there; 0 if it was not, or its worker is alive; or a result that must be judged first, and then changes nothing.
local unjudged, stays
if ARGV[4] ~= '' then unjudged, stays = existing_result(KEYS[5], ARGV[8], ARGV[9], ARGV[10]) end
if unjudged then return unjudged end
if ARGV[2] == '' then
  if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return 0 end
else
  if redis.call('EXISTS', KEYS[3]) == 1 or redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[1] then return 0 end
  if redis.call('HGET', KEYS[4], ARGV[3]) == ARGV[2] then redis.call('HDEL', KEYS[4], ARGV[3]) end
  redis.call('HDEL', KEYS[2], ARGV[2])
end
if ARGV[4] ~= '' then
  if not stays then redis.call('SET', KEYS[5], ARGV[4], 'EX', ARGV[5]) end
  redis.call('SET', KEYS[6], ARGV[6], 'EX', ARGV[7], 'NX')
end
return 1
