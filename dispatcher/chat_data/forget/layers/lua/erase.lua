-- Remove a key whose value has not changed since it was read. Repeating it changes nothing.
-- KEYS  a string
-- ARGV  its value
-- Returns 1 if it was removed, else 0.
return redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
