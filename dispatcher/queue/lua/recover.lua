-- Put the tasks of a dead worker back to the head of the queue, in order, and unlock their chats: they are served first again.
-- KEYS  1 hcli:tasks  2 hcli:mem:busy  3 hcli:mem:workers  4 hcli:mem:inflight:<worker>  5 hcli:mem:lease:<worker>  6 hcli:mem:release
--       7 hcli:mem:served
-- ARGV  1 worker  2 "1": count it against the tasks (the worker died while running them)  3 prefix of the attempt keys  4 their expiry
--       5 "1": it is known to be dead, so its lease is ignored
-- Returns the number of tasks put back, or -1 if the worker is alive.
if ARGV[5] == '1' then redis.call('DEL', KEYS[5]) end
if redis.call('EXISTS', KEYS[5]) == 1 then return -1 end
local function id_of(raw)
  local ok, task = pcall(cjson.decode, raw)
  local id = ok and type(task) == 'table' and task['task_id'] or string.match(raw, '"task_id"%s*:%s*"([^"\\]*)"')
  return type(id) == 'string' and #id <= 100 and string.find(id, '^[%w_-]+$') and id
end
local flat = redis.call('HGETALL', KEYS[4])
local tokens, raws = {}, {}
for i = 1, #flat, 2 do
  tokens[#tokens + 1] = flat[i]
  raws[flat[i]] = flat[i + 1]
end
table.sort(tokens)
for i = #tokens, 1, -1 do
  local raw = raws[tokens[i]]
  redis.call('LPUSH', KEYS[1], raw)
  local id = ARGV[2] == '1' and id_of(raw)
  if id then -- pcall: an error here would leave the tasks both queued and in flight
    redis.pcall('INCR', ARGV[3] .. id)
    redis.pcall('EXPIRE', ARGV[3] .. id, ARGV[4])
  end
end
local locks = redis.call('HGETALL', KEYS[2])
for i = 1, #locks, 2 do
  if string.sub(locks[i + 1], 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
    redis.call('HDEL', KEYS[2], locks[i])
    redis.pcall('ZREM', KEYS[7], locks[i])
  end
end
redis.call('DEL', KEYS[4])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[6], ARGV[1])
return #tokens
