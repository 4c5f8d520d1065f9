-- Take the first task of the queue whose chat nobody answers now. Atomic: a task is queued or in flight, never neither.
-- KEYS  1 hcli:tasks   2 hcli:mem:busy   3 hcli:mem:inflight:<worker>   4 hcli:mem:workers
-- ARGV  1 claim token "<worker>:<number>", unique to this claim   2 worker
-- Returns {task, chat} or nil. Asked again with the same token (the reply was lost), it returns the same task.
-- A task without a chat is taken without a lock: Python dead-letters it. Looks at the first 1,000 tasks, to leave Redis to others.
local function chat_of(raw)
  local ok, task = pcall(cjson.decode, raw)
  if not ok then -- cjson refuses some JSON that Python reads (a lone surrogate): its chat must be locked all the same
    return string.match(raw, '"chat_id"%s*:%s*"([^"\\]*)"') or string.match(raw, '"chat_id"%s*:%s*(%-?%d+)') or ''
  end
  if type(task) ~= 'table' then return '' end
  local chat = task['chat_id']
  if type(chat) == 'string' then return chat end
  if type(chat) == 'number' then return string.format('%.0f', chat) end
  return ''
end

local held = redis.call('HGET', KEYS[3], ARGV[1])
if held then return {held, chat_of(held)} end

local first, window = 0, 100
while first < 1000 do
  local raws = redis.call('LRANGE', KEYS[1], first, first + window - 1)
  if #raws == 0 then return nil end
  for _, raw in ipairs(raws) do
    local chat = chat_of(raw)
    if chat == '' or redis.call('HEXISTS', KEYS[2], chat) == 0 then
      redis.call('LREM', KEYS[1], 1, raw)
      redis.call('HSET', KEYS[3], ARGV[1], raw)
      redis.call('SADD', KEYS[4], ARGV[2]) -- whoever holds a task can be found, also when its lease had lapsed
      if chat ~= '' then redis.call('HSET', KEYS[2], chat, ARGV[1]) end
      return {raw, chat}
    end
  end
  first = first + window
end
return nil
