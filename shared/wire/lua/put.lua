-- Store a file of a message, unless all of them together would be too large. Repeating it changes nothing.
-- KEYS  1 hcli:mem:media (when each expires)  2 hcli:mem:media:<sha256>
-- ARGV  1 <size>:<sha256>  2 its bytes  3 now, in POSIX seconds  4 expiry in seconds  5 limit of all together, in bytes
-- Returns 1 stored, -1 there is no room.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
local total = #ARGV[2]
for _, one in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if one ~= ARGV[1] then total = total + (tonumber(string.match(one, '^(%d+):')) or 0) end
end
if total > tonumber(ARGV[5]) then return -1 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[4])
redis.call('ZADD', KEYS[1], ARGV[3] + ARGV[4], ARGV[1])
return 1
