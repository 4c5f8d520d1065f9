-- Move a task that cannot be processed to the dead letters, with the reason.
-- KEYS  1 hcli:mem:inflight:<worker>  2 hcli:mem:busy  3 hcli:mem:dead  4 hcli:results:<task> (any key if there is no result)
-- ARGV  1 claim token  2 chat (its lock)  3 dead letter JSON  4 length of the list  5 result JSON or ""  6 its expiry in seconds
--       7 the key of what was written of its answer, which is removed  8 9 10 of the existing result (existing_result.lua, ahead of this)
-- Returns 1; 0 if it was buried before; a result that must be judged first: then nothing is written; -1 if the dead letters are a key of another type: then the task stays in flight, its chat is free.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local unjudged, stays
if ARGV[5] ~= '' then unjudged, stays = existing_result(KEYS[4], ARGV[8], ARGV[9], ARGV[10]) end
if unjudged then return unjudged end
local pushed = redis.pcall('RPUSH', KEYS[3], ARGV[3])
if ARGV[5] ~= '' and not stays then redis.call('SET', KEYS[4], ARGV[5], 'EX', ARGV[6]) end
if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[2]) end
redis.pcall('DEL', ARGV[7])
if type(pushed) == 'table' then return -1 end
redis.call('LTRIM', KEYS[3], -ARGV[4], -1)
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
