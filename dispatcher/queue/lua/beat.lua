#!lua flags=allow-oom
-- The heartbeat of a worker, also when Redis is full: it lives, and the night waits for it to serve the release that makes room.
-- KEYS  1 hcli:mem:workers  2 hcli:mem:lease:<worker>  3 hcli:mem:release  4 hcli:mem:features  5 hcli:mem:forgotten
-- ARGV  1 the worker  2 the forgetting for which it dropped its caches  3 seconds of the lease  4 the run that it serves  5 seconds of KEYS[4]
--       then for each feature that failed: its name, why
-- Returns the mark of the last forgetting, false for none.
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
if #ARGV > 5 then
  redis.call('HSET', KEYS[4], unpack(ARGV, 6))
  redis.call('EXPIRE', KEYS[4], ARGV[5])
end
return redis.call('GET', KEYS[5])
