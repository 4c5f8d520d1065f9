-- Take one update: queue its task if it has one, and store where its answer goes. An update that was taken before changes nothing.
-- KEYS  1 hcli:mem:bot:waiting:<bot>  2 hcli:mem:bot:seen:<task>  3 hcli:tasks  4 hcli:pending:<chat>  5 hcli:mem:bot:seen:<message>
--       6 hcli:mem:bot:arriving:<bot>
-- ARGV  1 task id  2 waiting record  3 task JSON, "" for one of the bot's own messages  4 queue limit, "" for none  5 limit of the chat
--       6 expiry of the marks in seconds  7 mark of the message  8 field of the refusal, "" for none  9 record of the refusal
--       10 what stood among the arriving messages under this task, "" for an update that comes from Telegram now
-- Returns 1 taken now, 0 taken before or changed meanwhile, -1 refused: too much is waiting (one notice until that is delivered).
if ARGV[10] ~= '' then
  if redis.call('HGET', KEYS[6], ARGV[1]) ~= ARGV[10] then return 0 end
  redis.call('HDEL', KEYS[6], ARGV[1])
elseif redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[6])
if ARGV[3] ~= '' then
  local waiting = 0
  for _, id in ipairs(redis.call('LRANGE', KEYS[4], 0, -1)) do -- ids without a waiting record do not count
    waiting = waiting + redis.call('HEXISTS', KEYS[1], id)
  end
  local full = ARGV[4] ~= '' and redis.call('LLEN', KEYS[3]) >= tonumber(ARGV[4])
  if full or waiting >= tonumber(ARGV[5]) then
    if ARGV[8] ~= '' then redis.call('HSETNX', KEYS[1], ARGV[8], ARGV[9]) end
    return -1
  end
  redis.call('RPUSH', KEYS[3], ARGV[3])
  redis.call('RPUSH', KEYS[4], ARGV[1])
  redis.call('SET', KEYS[5], ARGV[7], 'EX', ARGV[6])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
