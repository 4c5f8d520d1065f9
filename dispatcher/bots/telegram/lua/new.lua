-- End a conversation. Its messages are left to the dispatcher: ours removes them before it answers again (begin.lua), h-cli's writes them to a file.
-- KEYS  1 hcli:session:<chat>  2 hcli:mem:bot:new:<chat>
-- ARGV  1 expiry of the mark in seconds
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
return 1
