-- End a conversation that an old copy of Redis brought back, and remove the forgotten entries from its list. Repeating it changes nothing.
-- KEYS  1 hcli:session_history:<chat>  2 hcli:session:<chat>  3 hcli:session_size:<chat>  4 hcli:mem:spent:<chat>  5 hcli:mem:why:<chat>
-- ARGV  forgotten entries of the list, removed by value
-- Returns 1 if the conversation was ended; 0 if none of the entries exists any more.
local gone = 0
for i = 1, #ARGV do gone = gone + redis.call('LREM', KEYS[1], 0, ARGV[i]) end
if gone == 0 then return 0 end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return 1
