-- Tell Redis how far a journal has followed it; never less than it knows.
-- KEYS  1 hcli:mem:journal
-- ARGV  1 id of the journal  2 number of an entry
if (tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '') or -1) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
