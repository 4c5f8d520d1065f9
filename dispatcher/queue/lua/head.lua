-- The task at the head of the queue, for those who look at it and change nothing; nil for one that is larger than it may be, or none.
-- KEYS  1 hcli:tasks
-- ARGV  1 bytes of the largest task
local raw = redis.call('LRANGE', KEYS[1], 0, 0)[1]
return raw and #raw <= tonumber(ARGV[1]) and raw or nil
