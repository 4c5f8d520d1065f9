-- Leaves what Claude wrote, if it is still wanted: whoever forgets takes the request away.
-- KEYS: the hash of the request, the hash of the answer. ARGV: the field, the answer.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if KEYS[1] ~= KEYS[2] then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
