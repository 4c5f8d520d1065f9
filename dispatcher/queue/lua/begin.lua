-- Everything that must be known before a task is answered; and the chat's session, which is created if there is none, so that
-- `/new` can end it during the answer. Our bot's /new leaves the conversation so far to us: it is removed now, unless another session has begun since.
-- Repeating it gives the same, except that the session exists then.
-- KEYS  1 hcli:mem:done:<task>  2 hcli:mem:attempts:<task>  3 hcli:session:<chat>  4 hcli:session_history:<chat>  5 hcli:mem:spent:<chat>
--       6 hcli:memory:<task>:user  7 hcli:memory:<task>:asst  8 hcli:mem:forgotten  9 hcli:mem:bot:new:<chat>  10 hcli:session_size:<chat>
-- ARGV  1 id for a fresh session ("" = none is wanted)  2 its expiry in seconds  3 deaths from which a task is not run  4 "1": the conversation
--       so far is wanted even if a session is resumed  5 bytes from which on an existing turn cannot be ours
--       6 7 SHA-1 of existing turns that are this task's ("" = none is known)
-- Returns {digest that is done ("?" = unreadable), deaths, turn of the question, of the answer ("?" = too large), mark of the last forgetting,
--       session before, session whose cost is known, that cost, entries of the conversation…}; "" = absent. Nothing is written if the task is
--       not to be run.
local function text(value) return type(value) == 'string' and value or '' end
local done = redis.pcall('GET', KEYS[1])
if type(done) == 'table' then done = '?' end
local deaths = tonumber(text(redis.pcall('GET', KEYS[2])))
deaths = deaths and deaths >= 0 and deaths < 1e6 and math.floor(deaths) or 0 -- another program may have written there: 1e999, 0.5

local function turn(key)
  local raw = redis.call('MGET', key)[1]
  return raw and (#raw <= tonumber(ARGV[5]) and raw or '?') or ''
end

-- An existing turn counts as another task's until Python has recognised it as this one's.
local function unknown(raw, known) return raw ~= '' and redis.sha1hex(raw) ~= known end

local begun = {text(done), tostring(deaths), turn(KEYS[6]), turn(KEYS[7]), text(redis.pcall('GET', KEYS[8])), '', '', ''}
if ARGV[1] == '' or begun[1] ~= '' or deaths >= tonumber(ARGV[3]) then return begun end
if unknown(begun[3], ARGV[6]) or unknown(begun[4], ARGV[7]) then return begun end
if redis.call('DEL', KEYS[9]) == 1 and not redis.call('GET', KEYS[3]) then redis.call('DEL', KEYS[4], KEYS[10]) end
begun[6] = redis.call('SET', KEYS[3], ARGV[1], 'EX', ARGV[2], 'NX', 'GET') or ''
local spent = redis.pcall('HMGET', KEYS[5], 'session', 'cost')
begun[7], begun[8] = text(spent[1]), text(spent[2])
if begun[6] == '' or begun[6] == ARGV[1] or ARGV[4] == '1' then
  local entries = redis.pcall('LRANGE', KEYS[4], 0, -1)
  for _, entry in ipairs(entries) do begun[#begun + 1] = entry end
end
return begun
