-- Delete turn keys whose value is still exactly what was archived; leave every other. Repeating it changes nothing.
-- KEYS  1 hcli:mem:night:owner   2… the keys
-- ARGV  1 the lease's value (its fencing token)   then for each key: its type, its value ("string": as it is, else as DUMP gives it)
-- Returns {deleted, kept}, or an error if another night holds the lease.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another night holds the lease') end
local deleted, kept = 0, 0
for i = 2, #KEYS do
  local kind, value = ARGV[2 * i - 2], ARGV[2 * i - 1]
  local now = redis.call('TYPE', KEYS[i]).ok
  if now == kind and redis.call(kind == 'string' and 'GET' or 'DUMP', KEYS[i]) == value then
    redis.call('UNLINK', KEYS[i])
    deleted = deleted + 1
  elseif now ~= 'none' then
    kept = kept + 1
  end
end
return {deleted, kept}
