-- One look at the queue, at one moment. It changes nothing.
-- KEYS  1 hcli:mem:journal  2 hcli:mem:night:last  3 hcli:tasks  4 hcli:mem:tombstones  5 hcli:mem:bot:waiting  6… hcli:mem:inflight:<worker>
-- ARGV  1 id of the journal  2 most tasks  3 bytes of the largest task  4 index of the first tombstone
-- Returns {mark, last night, {queued tasks}, {{token, task, …} of each worker}, {tombstones}, {task id, record, …}, life}; "" or {} for a key of another
-- type. The life names the last time that a lost Redis was filled again.
local function text(value) return type(value) == 'string' and value or '' end
local function list(value) return type(value) == 'table' and not value.err and value or {} end
local function small(values)
  local found = {}
  for _, value in ipairs(values) do
    if #value <= tonumber(ARGV[3]) then found[#found + 1] = value end
  end
  return found
end
local flights = {}
for i = 6, #KEYS do flights[#flights + 1] = list(redis.pcall('HGETALL', KEYS[i])) end
return {
  text(redis.pcall('HGET', KEYS[1], ARGV[1])),
  text(redis.pcall('GET', KEYS[2])),
  small(list(redis.pcall('LRANGE', KEYS[3], 0, ARGV[2] - 1))),
  flights,
  list(redis.pcall('LRANGE', KEYS[4], ARGV[4], -1)),
  list(redis.pcall('HGETALL', KEYS[5])),
  text(redis.pcall('HGET', KEYS[1], ARGV[1] .. ':life')),
}
