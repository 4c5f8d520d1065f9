-- Tasks of the queue, for reading. One over the size limit is cut in place and returned that way (large_tasks.lua, ahead of this).
-- KEYS  1 hcli:tasks
-- ARGV  1 index of the first  2 of the last (-1: of the queue)  3 bytes of the largest task  4 what each holds that is returned (none: all)
-- Returns them in order.
local length, found = redis.call('LLEN', KEYS[1]), {}
local last = tonumber(ARGV[2]) < 0 and length - 1 or math.min(tonumber(ARGV[2]), length - 1)
for place = tonumber(ARGV[1]), last do
  local raw = cut_at(KEYS[1], place, redis.call('LRANGE', KEYS[1], place, place)[1], tonumber(ARGV[3]))
  if string.find(raw, ARGV[4] or '', 1, true) then found[#found + 1] = raw end
end
return found
