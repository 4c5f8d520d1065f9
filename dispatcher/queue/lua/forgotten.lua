-- End a conversation that a Redis from before brought back, and take what is forgotten out of its list. Repeating it changes nothing.
-- KEYS  1 hcli:session_history:<chat>  2 hcli:session:<chat>  3 hcli:session_size:<chat>  4 hcli:mem:spent:<chat>  5 hcli:mem:why:<chat>
-- ARGV  entries of the list that are forgotten, taken out by value
-- Returns 1 if the conversation was ended; 0 if none of them is there any more.
local gone = 0
for i = 1, #ARGV do gone = gone + redis.call('LREM', KEYS[1], 0, ARGV[i]) end
if gone == 0 then return 0 end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return 1
