-- Queue the message of an alarm: when it begins, again after a while as long as it lasts, and once when all has been well for a while.
-- However often and by however many dispatchers it is called, each message is queued once.
-- KEYS  1 hcli:mem:alarms  2 hcli:mem:outbox:<bot>
-- ARGV  1 name of the alarm  2 now  3 "1" while it lasts, else "0"  4 message JSON for that case, "" for none  5 seconds between two messages
--       6 seconds for which all must be well  7 its cause: with another one it is new
-- Returns 1 if the owner is to be told now.
local raw, now = redis.call('HGET', KEYS[1], ARGV[1]), tonumber(ARGV[2])
local known = nil
if raw then
  local read, value = pcall(cjson.decode, raw)
  known = read and type(value) == 'table' and tonumber(value.sent) and value or { since = now, sent = 0 }
end
local function store() redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(known)) end
local function queue() if ARGV[4] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[4]) end end
if ARGV[3] == '1' then
  -- The difference in either direction: a clock that was ahead must not silence an alarm for years.
  if known and (known.cause or '') == ARGV[7] and math.abs(now - tonumber(known.sent)) < tonumber(ARGV[5]) then
    if known.well then
      known.well = nil
      store()
    end
    return 0
  end
  known = { since = known and known.since or now, sent = now, cause = ARGV[7] }
  store()
  queue()
  return 1
end
if not known then return 0 end
if not tonumber(known.well) then
  known.well = now
  store()
  return 0
end
if math.abs(now - tonumber(known.well)) < tonumber(ARGV[6]) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
queue()
return 1
