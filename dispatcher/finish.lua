-- Finish a task: everything that it leaves in Redis, in one step. Repeating it changes nothing.
-- KEYS  1 hcli:mem:inflight:<worker>  2 hcli:mem:busy  3 hcli:mem:done:<task>  4 hcli:memory:<task>:user  5 hcli:memory:<task>:asst
--       6 hcli:session_history:<chat>  7 hcli:session_size:<chat>  8 hcli:stats:<day>  9 hcli:session:<chat>
--       10 hcli:mem:unconsolidated:<chat>  11 hcli:results:<task>  12 hcli:mem:dead  13 hcli:mem:attempts:<task>
-- ARGV  1 claim token  2 chat (its lock)  3 JSON: {user, asst, history, size, stats, session_was, session, session_ttl, turn_ids, dead,
--       history_ttl, history_length, stats_ttl, done_ttl, unconsolidated_length, dead_length, result, result_ttl}; "" = absent
-- Returns 1 if this call finished it, 0 if it was finished before (by this worker or by one that took the task over).
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[2]) end
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end

local e = cjson.decode(ARGV[3])
if e.user ~= '' then redis.call('SET', KEYS[4], e.user) end
if e.asst ~= '' then redis.call('SET', KEYS[5], e.asst) end

-- The session moves on only if nobody ended it meanwhile (/new deletes it): then this exchange belongs to the conversation that ended.
if (redis.call('GET', KEYS[9]) or '') == e.session_was then
  if e.session ~= '' then
    redis.call('SET', KEYS[9], e.session, 'EX', e.session_ttl)
  else
    redis.call('DEL', KEYS[9])
  end
  for _, entry in ipairs(e.history) do redis.call('RPUSH', KEYS[6], entry) end
  redis.call('LTRIM', KEYS[6], -e.history_length, -1)
  redis.call('EXPIRE', KEYS[6], e.history_ttl)
  redis.call('INCRBY', KEYS[7], e.size)
  redis.call('EXPIRE', KEYS[7], e.history_ttl)
end

for _, pair in ipairs(e.stats) do
  redis.call(pair[1] == 'cost_usd' and 'HINCRBYFLOAT' or 'HINCRBY', KEYS[8], pair[1], pair[2])
end
redis.call('EXPIRE', KEYS[8], e.stats_ttl)

for _, turn_id in ipairs(e.turn_ids) do redis.call('RPUSH', KEYS[10], turn_id) end
redis.call('LTRIM', KEYS[10], -e.unconsolidated_length, -1)
if e.dead ~= '' then
  redis.call('RPUSH', KEYS[12], e.dead)
  redis.call('LTRIM', KEYS[12], -e.dead_length, -1)
end
-- A result that stands there is the bot's own, written at /cancel: it has been shown, ours comes too late.
redis.call('SET', KEYS[11], e.result, 'EX', e.result_ttl, 'NX')
redis.call('DEL', KEYS[13])
redis.call('SET', KEYS[3], '1', 'EX', e.done_ttl)
return 1
