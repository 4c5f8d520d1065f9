-- Finish a task: write everything that it leaves in Redis, in one step. Repeating it changes nothing.
-- KEYS  1 hcli:mem:inflight:<worker>  2 hcli:mem:busy  3 hcli:mem:done:<task>  4 hcli:memory:<task>:user  5 hcli:memory:<task>:asst
--       6 hcli:session_history:<chat>  7 hcli:session_size:<chat>  8 hcli:session:<chat>  9 hcli:mem:unconsolidated:<chat>
--       10 hcli:results:<task>  11 hcli:mem:dead  12 hcli:mem:attempts:<task>  13 hcli:mem:spent:<chat>  14 hcli:mem:chats
--       15 hcli:mem:tags  16 hcli:mem:why:<chat>  17 hcli:memory:<corrected task>:user  18 hcli:mem:holds
-- ARGV  1 claim token  2 chat (its lock)  3 JSON: {user, asst, history, size, counters, digest, session_was, session, session_ttl, turn_ids, dead,
--       history_ttl, history_length, done_ttl, unconsolidated_length, dead_length, result, result_ttl, chat, tokens,
--       spent_ttl, tags, partial (its key, which is removed), why, why_kept (how many, for how long, those from when on), forget, session_cost, existing_turns, corrected}; "" = absent; counters: list of {key, ttl in seconds, increments: [[field, number]…]}; forget: the conversation so far is not to be replayed;
--       session_cost: what the session has cost so far; existing_turns: SHA-1 of each turn that existed when it was begun and is this task's
--       4 5 6 of the existing result (existing_result.lua, ahead of this)
-- Returns 1 if this call finished it, 0 if it was finished before (by this worker or by one that took the task over); -1 if its id is
--       another task's, or a result that must be judged first: then nothing is written, and the task stays in flight.
local function leave()
  redis.call('HDEL', KEYS[1], ARGV[1])
  if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[2]) end
end
local e = cjson.decode(ARGV[3])
local done = redis.pcall('GET', KEYS[3])
if done and done ~= e.digest then return -1 end
if done then leave() return 0 end

-- Turns that have appeared under its id since are another task's, and stay. A key of another type is not a turn, and is replaced.
for i, turn in ipairs({e.user, e.asst}) do
  local existing = redis.call('MGET', KEYS[3 + i])[1]
  if turn ~= '' and existing and redis.sha1hex(existing) ~= e.existing_turns[i] then return -1 end
end

-- An existing signed result is the bot's own, written at /cancel: it has been shown, so ours is too late.
local unjudged, stays = existing_result(KEYS[10], ARGV[4], ARGV[5], ARGV[6])
if unjudged then return unjudged end

-- Redis does not undo what a script did before an error: what cannot fail comes first, what may fail (a key of another type) is
-- tried, and the in-flight entry goes last.
if e.user ~= '' then redis.call('SET', KEYS[4], e.user) end
if e.asst ~= '' then redis.call('SET', KEYS[5], e.asst) end
if e.corrected ~= '' then redis.call('SET', KEYS[17], e.corrected) end
if e.asst ~= '' then redis.pcall('HDEL', KEYS[18], '', ARGV[2]) end -- Claude answers: no question is held any more
if not stays then redis.call('SET', KEYS[10], e.result, 'EX', e.result_ttl) end
redis.call('SET', KEYS[3], e.digest, 'EX', e.done_ttl)
redis.call('DEL', KEYS[12])
redis.pcall('DEL', e.partial)

-- The session advances only if it was not ended meanwhile (/new deletes it): else this exchange belongs to the conversation that ended.
local session = redis.pcall('GET', KEYS[8])
if (session or '') == e.session_was then
  if e.session ~= '' then
    redis.call('SET', KEYS[8], e.session, 'EX', e.session_ttl)
  else
    redis.call('DEL', KEYS[8])
  end
  for _, entry in ipairs(e.history) do redis.pcall('RPUSH', KEYS[6], entry) end
  redis.pcall('LTRIM', KEYS[6], -e.history_length, -1)
  redis.pcall('EXPIRE', KEYS[6], e.history_ttl)
  redis.pcall('INCRBY', KEYS[7], e.size)
  redis.pcall('EXPIRE', KEYS[7], e.history_ttl)
  -- What this session has cost so far: another session counts from zero.
  if redis.pcall('HGET', KEYS[13], 'session') ~= e.session then redis.pcall('DEL', KEYS[13]) end
  redis.pcall('HSET', KEYS[13], 'session', e.session)
  redis.pcall('HINCRBY', KEYS[13], 'tokens', e.tokens)
  if e.session_cost ~= '' then redis.pcall('HSET', KEYS[13], 'cost', e.session_cost) end
  redis.pcall('EXPIRE', KEYS[13], e.spent_ttl)
end
if e.forget then
  redis.pcall('DEL', KEYS[8])
  for _, name in ipairs({KEYS[6], KEYS[7], KEYS[13], KEYS[16]}) do redis.pcall('DEL', name) end
end

for _, counted in ipairs(e.counters) do
  for _, pair in ipairs(counted.increments) do
    redis.pcall(pair[1] == 'cost_usd' and 'HINCRBYFLOAT' or 'HINCRBY', counted.key, pair[1], pair[2])
  end
  redis.pcall('EXPIRE', counted.key, counted.ttl)
end
for _, turn_id in ipairs(e.turn_ids) do redis.pcall('RPUSH', KEYS[9], turn_id) end
redis.pcall('LTRIM', KEYS[9], -e.unconsolidated_length, -1)
if #e.turn_ids > 0 then redis.pcall('SADD', KEYS[14], e.chat) end
if e.tags ~= '' then redis.pcall('RPUSH', KEYS[15], e.tags) end
if e.why ~= '' and not e.forget then
  local pushed = redis.pcall('RPUSH', KEYS[16], e.why)
  if type(pushed) == 'table' then -- an error: a key of another type
    redis.call('DEL', KEYS[16])
    redis.call('RPUSH', KEYS[16], e.why)
  end
  redis.call('LTRIM', KEYS[16], -e.why_kept[1], -1)
  -- Each for its own time: the list expires only after the last of them.
  for _ = 1, e.why_kept[1] do
    local read, oldest = pcall(cjson.decode, redis.call('LINDEX', KEYS[16], 0) or '')
    if read and type(oldest) == 'table' and (tonumber(oldest.at) or e.why_kept[3]) >= e.why_kept[3] then break end
    if redis.call('LPOP', KEYS[16]) == false then break end
  end
  redis.call('EXPIRE', KEYS[16], e.why_kept[2])
end
if e.dead ~= '' then
  redis.pcall('RPUSH', KEYS[11], e.dead)
  redis.pcall('LTRIM', KEYS[11], -e.dead_length, -1)
end
leave()
return 1
