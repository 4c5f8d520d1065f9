-- Take a code that a stranger sent: once, whoever else sends it at the same time. An update that was taken before changes nothing.
-- KEYS  1 hcli:mem:bot:waiting:<bot>  2 hcli:mem:bot:seen:<update>  3 hcli:mem:invite:<hash of the code>  4 hcli:mem:guests
--       5 hcli:mem:bot:tries:<chat>  6 hcli:mem:chat:<chat>
-- ARGV  1 update  2 chat  3 the invitation as it was read, "" for none  4 record of the guest  5 what the guest is told
--       6 what a stranger with any other code is told  7 field and 8 record of what the owner is told
--       9 expiry of the mark  10 most wrong tries  11 expiry of their count  12 field and 13 value of what the chat may have
-- Returns 1 a guest now, 0 another code, -1 too many of them: no reply.
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[9])
if tonumber(redis.call('GET', KEYS[5]) or '0') >= tonumber(ARGV[10]) then return -1 end
if ARGV[3] ~= '' and redis.call('GET', KEYS[3]) == ARGV[3] then
  redis.call('DEL', KEYS[3])
  redis.call('HSET', KEYS[6], ARGV[12], ARGV[13])
  redis.call('HSET', KEYS[4], ARGV[2], ARGV[4])
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
  redis.call('HSET', KEYS[1], ARGV[7], ARGV[8])
  return 1
end
if redis.call('INCR', KEYS[5]) == 1 then redis.call('EXPIRE', KEYS[5], ARGV[11]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[6])
return 0
