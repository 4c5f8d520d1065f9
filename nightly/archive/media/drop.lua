-- Delete a file of a message that waited for the night, if it is still what was read; repeating it changes nothing.
-- KEYS  1 hcli:mem:night:owner  2 hcli:mem:kept (what waits)  3 hcli:mem:kept:<task>:<sha256>  4 hcli:memory:<task>:user
-- ARGV  1 the lease's value (its fencing token)  2 <task>:<sha256>  3 SHA-1 of its bytes  4 "orphaned": only while there is no such turn
-- Returns 1 if it is gone, 0 if it stays, or an error if another night holds the lease.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another night holds the lease') end
if ARGV[4] == 'orphaned' and redis.call('TYPE', KEYS[4]).ok ~= 'none' then return 0 end
local kind = redis.call('TYPE', KEYS[3]).ok
if kind ~= 'none' then
  if kind ~= 'string' or redis.sha1hex(redis.call('GET', KEYS[3])) ~= ARGV[3] then return 0 end
  redis.call('UNLINK', KEYS[3])
end
redis.call('HDEL', KEYS[2], ARGV[2])
return 1
