-- Keep a file of a finished message until a night has archived it, unless all that wait would be too large together. Repeating it changes nothing.
-- KEYS  1 hcli:mem:kept (what waits)  2 hcli:mem:kept:<task>:<sha256>
-- ARGV  1 <task>:<sha256>  2 its bytes ("": it may only be there already)  3 <size>:<now>:<chat>  4 limit of all together, in bytes
-- Returns 1 it is kept, 0 it is not there, -1 there is no room.
if redis.call('EXISTS', KEYS[2]) == 1 then
  local size = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+):') or tostring(#ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], size .. string.match(ARGV[3], ':.*$'))
  return 1
end
if ARGV[2] == '' then return 0 end
local total = #ARGV[2]
local waiting = redis.call('HGETALL', KEYS[1])
for i = 1, #waiting, 2 do
  if waiting[i] ~= ARGV[1] then total = total + (tonumber(string.match(waiting[i + 1], '^(%d+):')) or 0) end
end
if total > tonumber(ARGV[4]) then return -1 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
