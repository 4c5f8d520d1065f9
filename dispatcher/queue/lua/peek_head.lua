-- The task at the head of the queue, read only; nil for one over the size limit, or none.
-- KEYS  1 hcli:tasks
-- ARGV  1 bytes of the largest task
local raw = redis.call('LRANGE', KEYS[1], 0, 0)[1]
return raw and #raw <= tonumber(ARGV[1]) and raw or nil
