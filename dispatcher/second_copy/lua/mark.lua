-- Tell Redis how far a journal has followed it, if it still is the Redis that was looked at; never less than it knows.
-- KEYS  1 hcli:mem:journal
-- ARGV  1 id of the journal  2 number of an entry (-1: only ask)  3 mark that the look saw, or that the journal remembers (-1 = none)
--       4 life that the look saw
-- Returns 1; 0 if Redis was lost since, or filled again by somebody who did not know what the look has seen: then it counts as lost for everybody.
local mark = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '')
local life = redis.call('HGET', KEYS[1], ARGV[1] .. ':life') or ''
if life ~= ARGV[4] or (mark or -1) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], ARGV[1], '', ARGV[1] .. ':life', '')
  return 0
end
if (mark or -1) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
