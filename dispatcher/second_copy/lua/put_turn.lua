-- Put a turn back that Redis lacks, or has in an older version, and have it stored in the day store. Repeating it changes nothing.
-- KEYS  1 hcli:memory:<task>:<role>  2 hcli:mem:unconsolidated:<chat>  3 hcli:mem:chats
-- ARGV  1 value  2 turn id  3 chat ("" = unknown)  4 most ids in the list
-- Returns 1 if it was put back.
if redis.call('MGET', KEYS[1])[1] == ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
if ARGV[3] ~= '' then
  redis.pcall('LREM', KEYS[2], 0, ARGV[2])
  redis.pcall('RPUSH', KEYS[2], ARGV[2])
  redis.pcall('LTRIM', KEYS[2], -ARGV[4], -1)
  redis.pcall('SADD', KEYS[3], ARGV[3])
end
return 1
