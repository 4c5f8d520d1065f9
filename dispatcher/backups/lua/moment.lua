-- The queue and all state around it as they are at one moment: of each key that exists its name, type, DUMP and PTTL.
-- KEYS[1]: the set of dispatchers. The others: keys to read. ARGV[1]: how the name of a dispatcher's claimed tasks begins. A dispatcher that
-- began after the keys were looked for is in the set.
local names, seen, found = {}, {}, {}
local function add(name)
  if not seen[name] then
    seen[name] = true
    names[#names + 1] = name
  end
end
for _, name in ipairs(KEYS) do add(name) end
if redis.call('TYPE', KEYS[1]).ok == 'set' then
  for _, worker in ipairs(redis.call('SMEMBERS', KEYS[1])) do add(ARGV[1] .. worker) end
end
for _, name in ipairs(names) do
  local kind = redis.call('TYPE', name).ok
  if kind ~= 'none' then
    found[#found + 1] = name
    found[#found + 1] = kind
    found[#found + 1] = redis.call('DUMP', name)
    found[#found + 1] = redis.call('PTTL', name)
  end
end
return found
