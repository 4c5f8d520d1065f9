-- Take a task whose chat is not being answered: of such chats the least recently served one, never served ones first; within a chat the
-- first. Atomic: a task is queued or in flight, never neither. Tasks stay in one list, from which the bot can remove them.
-- KEYS  1 hcli:tasks   2 hcli:mem:busy   3 hcli:mem:inflight:<worker>   4 hcli:mem:workers   5 hcli:mem:served   6 hcli:mem:lease:<worker>
--       7 hcli:mem:holds
-- ARGV  1 claim token "<worker>:<number>", unique to this claim   2 worker   3 tasks that the worker runs now   4 prefix of the attempt keys
--       5 deaths from which a task runs alone   6 chats stored in hcli:mem:served   7 seconds of a lease   8 bytes of the largest task
--       9 now  10 names of commands that are answered while questions are held (postpone.lua), each between blanks
--       11 how ids of tasks begin that never wait with the others  12 seconds ahead from which a hold is that of a wrong clock
-- Returns {task, chat, "1" if it must run alone}; nil if there is none; 0 if the next one must run alone and the worker is not idle.
-- Called again with the same token (the reply was lost), it returns the same task.
-- A task without a chat is taken without a lock: Python dead-letters it. The same applies to the rest of one that was too large (large_tasks.lua, ahead of this).

-- How far a claim looks, so as not to block Redis: tasks further back wait until the queue is shorter.
local DEEPEST, MOST_BYTES = 10000, 64 * 1024 * 1024
local FIRST_WINDOW, WIDEST_WINDOW, HEAVY_BYTES = 4, 512, 256 * 1024
-- A queue that takes more than this is read entry by entry: one of them may be larger than all others.
local LIGHT_BYTES = 8 * 1024 * 1024
-- The largest node in which Redis keeps several entries (list-max-listpack-size -5), with what malloc adds.
local SHARED_NODE_BYTES = 128 * 1024

local function decoded_chat(raw)
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

-- If the name occurs once and unescaped, its value is matched directly, in a third of the time. No letter of it may be written as \u00XX.
local function chat_of(raw)
  if is_cut(raw) then return '' end
  local _, name_end = string.find(raw, '"chat_id"', 1, true)
  local plain = not string.find(raw, '\\u00', 1, true) or not string.find(raw, '\\u00[4-7]')
  if name_end and plain and not string.find(raw, '"chat_id"', name_end, true) then
    local chat = string.match(raw, '^%s*:%s*(%-?%d+)%s*[,}]', name_end + 1) or string.match(raw, '^%s*:%s*"([^"\\]*)"', name_end + 1)
    if chat then return chat end
  end
  return decoded_chat(raw)
end

local function deaths_of(raw)
  local ok, task = pcall(cjson.decode, raw)
  local id = ok and type(task) == 'table' and task['task_id'] or string.match(raw, '"task_id"%s*:%s*"([^"\\]*)"')
  if type(id) ~= 'string' or #id > 100 or not string.find(id, '^[%w_-]+$') then return 0 end
  local deaths = redis.pcall('GET', ARGV[4] .. id)
  return type(deaths) == 'string' and tonumber(deaths) or 0
end

-- The number of a chat's last claim; nil if it was never served. A key of another type has no numbers.
local function served(chat)
  local number = redis.pcall('ZSCORE', KEYS[5], chat)
  return type(number) == 'string' and tonumber(number) or nil
end

-- Whether a task waits with the questions of its chat, or of all chats.
local some_held, now = redis.pcall('HLEN', KEYS[7]) ~= 0, tonumber(ARGV[9])
local function waits(raw, chat)
  if not some_held then return false end
  local later = false
  for _, name in ipairs({'', chat}) do
    local kept = redis.pcall('HGET', KEYS[7], name)
    local read, hold = pcall(cjson.decode, type(kept) == 'string' and kept or '')
    local left = (read and type(hold) == 'table' and tonumber(hold.next) or 0) - now
    if left > 0 and hold.task and redis.pcall('HEXISTS', tostring(hold.bot), tostring(hold.task)) == 0 then
      redis.pcall('HDEL', KEYS[7], name) -- its question was cancelled
      left = 0
    end
    later = later or (left > 0 and left <= tonumber(ARGV[12]))
  end
  if not later then return false end
  local ok, task = pcall(cjson.decode, raw)
  local message = ok and type(task) == 'table' and type(task.message) == 'string' and task.message or ''
  if message ~= '' and string.find(tostring(task.task_id), ARGV[11], 1, true) == 1 then return false end
  -- A command (command.py), and nothing that only looks like one: that would be asked again and again.
  local name, text = string.match(message, '^%s*/(%a+)(.*)')
  if not name or not string.find(string.gsub(text, '^@[%w_]+', '') .. ' ', '^%s') then return true end
  local files = type(task.media) == 'table' and next(task.media)
  if type(task.forward) == 'table' or files or task.scheduled == true then return true end
  return not string.find(ARGV[10], ' ' .. string.lower(name) .. ' ', 1, true)
end

-- Cut the head without reading it, if it is certainly too large. Redis cannot report the size of one entry, and reading 100 MB here takes a second;
-- it can report the size of the first node times the number of nodes, and there are at most as many nodes as entries.
local function cut_large_head(most)
  local sampled, all = usage(KEYS[1], 1), usage(KEYS[1], 0)
  if not sampled or sampled / redis.call('LLEN', KEYS[1]) <= 2 * most + SHARED_NODE_BYTES then return end
  redis.call('LSET', KEYS[1], 0, CUT .. '0\n')
  redis.call('LSET', KEYS[1], 0, CUT .. all - usage(KEYS[1], 0) .. '\n')
end

-- The task to take and its chat, or nil.
local function chosen()
  local seen, best, most = {}, nil, tonumber(ARGV[8])
  local first, window, bytes, widest = 0, FIRST_WINDOW, 0, WIDEST_WINDOW
  if (usage(KEYS[1], 0) or LIGHT_BYTES) >= LIGHT_BYTES then
    cut_large_head(most)
    window, widest = 1, 1
  end
  while first < DEEPEST and bytes < MOST_BYTES do
    local raws = redis.call('LRANGE', KEYS[1], first, first + window - 1)
    if #raws == 0 then break end
    local read = 0
    for place, raw in ipairs(raws) do
      read = read + #raw
      raw = cut_at(KEYS[1], first + place - 1, raw, most)
      local chat = chat_of(raw)
      if chat == '' then return raw, chat end
      if not seen[chat] and not waits(raw, chat) then
        seen[chat] = true
        local number = served(chat)
        local better = not number or not best or number < best.number
        if better and redis.call('HEXISTS', KEYS[2], chat) == 0 then
          if not number then return raw, chat end
          best = {raw = raw, chat = chat, number = number}
        end
      end
    end
    first, bytes = first + #raws, bytes + read
    window = read > HEAVY_BYTES and 1 or math.min(2 * window, widest)
  end
  if best then return best.raw, best.chat end
end

local claimed = redis.call('HGET', KEYS[3], ARGV[1])
if claimed then return {claimed, chat_of(claimed), deaths_of(claimed) >= tonumber(ARGV[5]) and '1' or ''} end

local raw, chat = chosen()
if not raw then return nil end
local alone = deaths_of(raw) >= tonumber(ARGV[5])
if alone and tonumber(ARGV[3]) > 0 then return 0 end
redis.call('SADD', KEYS[4], ARGV[2]) -- so that the holder of a task can be found; first, because it fails if that key is of another type
redis.call('LREM', KEYS[1], 1, raw)
redis.call('HSET', KEYS[3], ARGV[1], raw)
-- The worker is alive: its lease may have expired while its process was stopped.
if redis.call('EXPIRE', KEYS[6], ARGV[7]) == 0 then redis.call('SET', KEYS[6], '', 'EX', ARGV[7]) end
if chat ~= '' then
  redis.call('HSET', KEYS[2], chat, ARGV[1])
  local newest = redis.pcall('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')
  redis.pcall('ZADD', KEYS[5], (newest[2] or 0) + 1, chat)
  redis.pcall('ZREMRANGEBYRANK', KEYS[5], 0, -tonumber(ARGV[6]) - 1)
end
return {raw, chat, alone and '1' or ''}
