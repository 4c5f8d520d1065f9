-- End a session that has been summarised, unless a task is using it: then the next round tries again. Repeating it changes nothing.
-- KEYS  1 hcli:session:<chat>  2 hcli:session_history:<chat>  3 hcli:session_size:<chat>  4 hcli:mem:spent:<chat>  5 hcli:mem:busy
--       6 hcli:mem:unconsolidated:<chat>
-- ARGV  1 chat (its lock)  2 session that was summarised  3... entries of the short list that are in the summary, cleared by value
-- Returns 1 if the session ended; 0 if a task of the chat runs or has just ended (its turns are not in the summary), or another session has begun.
if redis.call('HEXISTS', KEYS[5], ARGV[1]) == 1 then return 0 end
if redis.call('LLEN', KEYS[6]) > 0 then return 0 end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  if redis.call('HGET', KEYS[4], 'session') == ARGV[2] then redis.call('DEL', KEYS[4]) end
  return 0
end
redis.call('DEL', KEYS[1], KEYS[3], KEYS[4])
for i = 3, #ARGV do redis.pcall('LREM', KEYS[2], 1, ARGV[i]) end
return 1
