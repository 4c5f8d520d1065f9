-- Store an update whose files are still to be fetched, or one picture more of an album, or an edited caption. Repeating it changes nothing.
-- KEYS  1 hcli:mem:bot:arriving:<bot>  2 hcli:mem:bot:seen:<update>
-- ARGV  1 task id of the message (of an album: of its first)  2 what stands there now, "" for nothing  3 what is to stand there
--       4 expiry of the mark in seconds
-- Returns 1 stored, 0 this update was taken before, -1 something else stands there by now.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return -1 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[4])
return 1
