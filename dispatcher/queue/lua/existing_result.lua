-- An existing result at the key that a script will write. This text is prepended to finish.lua, bury.lua and forget/layers/lua/withdraw.lua.
-- Only Python can verify a signature: `judged` is the SHA-1 of the bytes that it has judged ("" = none yet, "*" = any existing result counts as
-- unsigned), `stays` is "1" if they were signed. A value of more than `most` bytes, or of another type, counts as unsigned.
-- Returns the bytes if they are still to be judged, else nil; and whether the existing result stays.
local function existing_result(key, judged, stays, most)
  local size = redis.pcall('STRLEN', key)
  if judged == '*' or (type(size) == 'number' and size > tonumber(most)) then return nil, false end
  local raw = redis.pcall('GET', key)
  if type(raw) ~= 'string' or raw == '' then return nil, false end
  if redis.sha1hex(raw) ~= judged then return raw, false end
  return nil, stays == '1'
end
