-- Tasks over the size limit are cut in place in the queue. This text is prepended to claim.lua and queued.lua.
-- What is left of one is not JSON, so that no program takes it for a task: this mark, its size, and lines with its beginning and its end.
local CUT = 'hmem-too-large '
local function is_cut(raw) return string.sub(raw, 1, #CUT) == CUT end

-- The task at this position, cut if it has more than `most` bytes. Characters that would be split are left out.
local function cut_at(tasks, place, raw, most)
  if #raw <= most then return raw end
  local beginning = string.gsub(string.sub(raw, 1, 1024), '[\128-\255]*$', '')
  local ending = string.gsub(string.sub(raw, -512), '^[\128-\255]*', '')
  local left = CUT .. #raw .. '\n' .. beginning .. '\n' .. ending
  redis.call('LSET', tasks, place, left)
  return left
end

-- Bytes that Redis estimates for the queue from the first `samples` of its nodes (0: exactly, from all); nil if this user may not ask.
local function usage(tasks, samples)
  local bytes = redis.pcall('MEMORY', 'USAGE', tasks, 'SAMPLES', samples)
  return type(bytes) == 'number' and bytes or nil
end
