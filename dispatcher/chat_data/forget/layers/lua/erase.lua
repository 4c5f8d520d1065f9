-- Remove keys whose value has not changed since it was read. Repeating it changes nothing.
-- KEYS  any number of strings
-- ARGV  the value of each
-- Returns for each 1 if it was removed, else 0.
local gone = {}
for i, key in ipairs(KEYS) do
  gone[i] = redis.pcall('GET', key) == ARGV[i] and redis.call('DEL', key) or 0
end
return gone
