-- Everything that must be known before a task is answered; and the chat's session, which is created if there is none, so that
-- `/new` can end it during the answer. Our bot's /new leaves the conversation so far to us: it is removed now, unless another session has begun since.
-- Repeating it gives the same, except that the session exists then.
-- KEYS  1 hcli:mem:done:<task>  2 hcli:mem:attempts:<task>  3 hcli:mem:cancel:<task>  4 hcli:results:<task>  5 hcli:session:<chat>
--       6 hcli:session_history:<chat>  7 hcli:mem:spent:<chat>  8 hcli:memory:<task>:user  9 hcli:memory:<task>:asst  10 hcli:mem:forgotten
--       11 hcli:pending:<chat>  12 hcli:mem:bot:new:<chat>  13 hcli:session_size:<chat>
-- ARGV  1 id for a fresh session ("" = none is wanted)  2 its expiry in seconds  3 deaths from which a task is not run  4 "1": the conversation
--       so far is wanted even if a session is resumed  5 SHA-1 of an existing unsigned result ("" = none is known, "*" = any)
--       6 bytes from which on an existing value cannot be ours  7 8 SHA-1 of existing turns that are this task's ("" = none is known)
--       9 task id
-- Returns {digest that is done ("?" = unreadable), deaths, "1" if cancelled, existing result, turn of the question, of the answer ("?" =
--       too large), session before, session whose cost is known, that cost, mark of the last forgetting, "1" if its bot
--       has recorded that it waits for it, entries of the conversation…};
--       "" = absent. Nothing is written if the task is not to be run.
local function text(value) return type(value) == 'string' and value or '' end
local done = redis.pcall('GET', KEYS[1])
if type(done) == 'table' then done = '?' end
local deaths = tonumber(text(redis.pcall('GET', KEYS[2])))
deaths = deaths and deaths >= 0 and deaths < 1e6 and math.floor(deaths) or 0 -- another program may have written there: 1e999, 0.5
local cancelled = redis.call('EXISTS', KEYS[3]) == 1
local size = redis.pcall('STRLEN', KEYS[4])
local huge = type(size) == 'number' and size > tonumber(ARGV[6])
local existing = not huge and text(redis.pcall('GET', KEYS[4])) or ''
if existing ~= '' and (ARGV[5] == '*' or redis.sha1hex(existing) == ARGV[5]) then existing = '' end

local function turn(key)
  local raw = redis.call('MGET', key)[1]
  return raw and (#raw <= tonumber(ARGV[6]) and raw or '?') or ''
end

-- An existing turn counts as another task's until Python has recognised it as this one's.
local function unknown(raw, known) return raw ~= '' and redis.sha1hex(raw) ~= known end

local begun = {text(done), tostring(deaths), cancelled and '1' or '', existing, turn(KEYS[8]), turn(KEYS[9]), '', '', '',
  text(redis.pcall('GET', KEYS[10])), type(redis.pcall('LPOS', KEYS[11], ARGV[9])) == 'number' and '1' or ''}
if ARGV[1] == '' or begun[1] ~= '' or deaths >= tonumber(ARGV[3]) or cancelled or existing ~= '' then return begun end
if unknown(begun[5], ARGV[7]) or unknown(begun[6], ARGV[8]) then return begun end
if redis.call('DEL', KEYS[12]) == 1 and not redis.call('GET', KEYS[5]) then redis.call('DEL', KEYS[6], KEYS[13]) end
begun[7] = redis.call('SET', KEYS[5], ARGV[1], 'EX', ARGV[2], 'NX', 'GET') or ''
local spent = redis.pcall('HMGET', KEYS[7], 'session', 'cost')
begun[8], begun[9] = text(spent[1]), text(spent[2])
if begun[7] == '' or begun[7] == ARGV[1] or ARGV[4] == '1' then
  local entries = redis.pcall('LRANGE', KEYS[6], 0, -1)
  for _, entry in ipairs(entries) do begun[#begun + 1] = entry end
end
return begun
