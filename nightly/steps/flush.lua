-- Delete turn keys whose value is still exactly what was archived; leave every other. Repeating it changes nothing.
-- KEYS  1 hcli:mem:night:owner   2 hcli:mem:flushed:<run>, if a journal follows this Redis   3… the keys
-- ARGV  1 the lease's value (its fencing token)   2 seconds of that list, 0 = no journal   then for each key: its type, its value ("string": as it
--       is, else as DUMP gives it)
-- Returns {deleted, kept}, or an error if another night holds the lease. What is gone is listed for the journal, also a key that was gone before:
-- a turn leaves the journal for no other reason.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another night holds the lease') end
local deleted, kept = 0, 0
local function flushed(key, value)
  if ARGV[2] ~= '0' then
    redis.call('RPUSH', KEYS[2], redis.sha1hex(value) .. ' ' .. key)
    redis.call('EXPIRE', KEYS[2], ARGV[2])
  end
end
for i = 3, #KEYS do
  local kind, value = ARGV[2 * i - 3], ARGV[2 * i - 2]
  local now = redis.call('TYPE', KEYS[i]).ok
  if now == kind and redis.call(kind == 'string' and 'GET' or 'DUMP', KEYS[i]) == value then
    flushed(KEYS[i], value) -- first: a turn that is listed and still there is flushed by the next night
    redis.call('UNLINK', KEYS[i])
    deleted = deleted + 1
  elseif now ~= 'none' then
    kept = kept + 1
  else
    flushed(KEYS[i], value)
  end
end
return {deleted, kept}
