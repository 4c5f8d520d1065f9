-- A result that stands where a script will write one. This text goes ahead of finish.lua, bury.lua and forget/withdraw.lua.
-- Whether it is signed only Python can tell: `judged` is the SHA-1 of the bytes that it has looked at ("" = none yet, "*" = whatever stands there is
-- nobody's), `stays` is "1" if they were signed. Larger than `most` bytes, or of another type, it is nobody's.
-- Returns the bytes if they are still to be judged, else nil; and whether what stands there stays.
local function existing_result(key, judged, stays, most)
  local size = redis.pcall('STRLEN', key)
  if judged == '*' or (type(size) == 'number' and size > tonumber(most)) then return nil, false end
  local raw = redis.pcall('GET', key)
  if type(raw) ~= 'string' or raw == '' then return nil, false end
  if redis.sha1hex(raw) ~= judged then return raw, false end
  return nil, stays == '1'
end
