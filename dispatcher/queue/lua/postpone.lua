-- Put a claimed question back to the head of the queue, and hold the questions of its chat, or of all chats, until a time: claim.lua takes none of
-- them before. Repeating it changes nothing.
-- KEYS  1 hcli:mem:inflight:<worker>  2 hcli:mem:busy  3 hcli:tasks  4 hcli:mem:holds  5 hcli:mem:cancel:<task>  6 hcli:session:<chat>
--       7 hcli:mem:partial:<task>  8 hcli:mem:bot:waiting:<bot>
-- ARGV  1 claim token  2 chat (its lock)  3 field of the hold: the chat, "" for all  4 now  5 when a limit ends, "" if that is not known  6 why
--       7 when it was asked, "" if that is not known  8 session of this try: the CLI keeps the question in it, so the next one begins another
--       9 seconds to the first try  10 at most between two  11 that a question waits in all  12 … for what its own chat or it itself may have
--       caused  13 after a hold in which the next trouble is the same one  14 task id
-- Returns 1 if it waits, also since an earlier call; 0 if it has waited for too long, would have to, is cancelled, or no bot of ours waits for it:
--       then nothing is written.
local raw, now = redis.call('HGET', KEYS[1], ARGV[1]), tonumber(ARGV[4])
if not raw then return 1 end
local most = tonumber(ARGV[11])
local held = redis.pcall('HGET', KEYS[4], ARGV[3])
local read, known = pcall(cjson.decode, type(held) == 'string' and held or '')
local ended = read and type(known) == 'table' and tonumber(known.next) or 0
known = ended + tonumber(ARGV[13]) > now and ended - now <= most and known or {}
local since = math.min(tonumber(known.since) or now, now)
-- The longer it has lasted, the rarer a try.
local pause = math.min(math.max((now - since) / 4, tonumber(ARGV[9])), tonumber(ARGV[10]))
local resets = tonumber(ARGV[5])
local next_try = resets and resets + tonumber(ARGV[9]) or now + pause
local own = ARGV[3] ~= ''
if redis.call('EXISTS', KEYS[5]) == 1 or redis.pcall('HEXISTS', KEYS[8], ARGV[14]) ~= 1 then return 0 end
if next_try - math.min(tonumber(ARGV[7]) or since, now) > most then return 0 end
if own and not resets and next_try - since > tonumber(ARGV[12]) then return 0 end
local hold = {since = since, next = next_try, why = ARGV[6], resets = resets, task = own and ARGV[14] or nil, bot = own and KEYS[8] or nil}
redis.pcall('HSET', KEYS[4], ARGV[3], cjson.encode(hold))
if ARGV[8] ~= '' and redis.pcall('GET', KEYS[6]) == ARGV[8] then redis.call('DEL', KEYS[6]) end
redis.pcall('DEL', KEYS[7])
redis.call('LPUSH', KEYS[3], raw)
if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[2]) end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
