-- Remove turn ids that are in the day store from a chat's list, by value; remove the chat once nothing is left to do for it.
-- KEYS  1 hcli:mem:unconsolidated:<chat>  2 hcli:mem:chats  3 hcli:mem:spent:<chat>
-- ARGV  1 chat  2 tokens from which its session is to be ended  3... turn ids
-- Returns how many ids are left.
for i = 3, #ARGV do redis.call('LREM', KEYS[1], 1, ARGV[i]) end
local left = redis.call('LLEN', KEYS[1])
local spent = tonumber(redis.pcall('HGET', KEYS[3], 'tokens') or 0) or 0
if left == 0 and spent < tonumber(ARGV[2]) then redis.call('SREM', KEYS[2], ARGV[1]) end
return left
