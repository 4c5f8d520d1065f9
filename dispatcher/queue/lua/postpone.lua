-- Put a claimed question back to the head of the queue, and hold the questions of its chat, or of all chats, until a time: claim.lua takes none of
-- them before. Repeating it changes nothing.
-- KEYS  1 hcli:mem:inflight:<worker>  2 hcli:mem:busy  3 hcli:tasks  4 hcli:mem:holds  5 hcli:mem:cancel:<task>  6 hcli:session:<chat>
--       7 hcli:mem:partial:<task>  8 hcli:mem:bot:waiting:<bot>
-- ARGV  1 claim token  2 chat (its lock)  3 JSON: {task, all (whether all chats are held), why, resets (when a limit ends) and asked (when it was
--       asked), both null if that is not known, session (of this try: the CLI keeps the question in it, so the next one begins another), now, first
--       (seconds to the first try), pause (at most between two), most (that a question waits in all), most_own (for what its own chat or it itself
--       may have caused), same (after a hold in which the next trouble is the same one)}
-- Returns 1 if it waits, also since an earlier call; 0 if it has waited for too long, would have to, is cancelled, or no bot of ours waits for it:
--       then nothing is written.
local raw, e = redis.call('HGET', KEYS[1], ARGV[1]), cjson.decode(ARGV[3])
if not raw then return 1 end
local field, now = e.all and '' or ARGV[2], e.now
local held = redis.pcall('HGET', KEYS[4], field)
local read, known = pcall(cjson.decode, type(held) == 'string' and held or '')
local ended = read and type(known) == 'table' and tonumber(known.next) or 0
known = ended + e.same > now and ended - now <= e.most and known or {}
local since = math.min(tonumber(known.since) or now, now)
-- The longer it has lasted, the rarer a try.
local pause = math.min(math.max((now - since) / 4, e.first), e.pause)
local resets = tonumber(e.resets)
local next_try = resets and resets + e.first or now + pause
if redis.call('EXISTS', KEYS[5]) == 1 or redis.pcall('HEXISTS', KEYS[8], e.task) ~= 1 then return 0 end
if next_try - math.min(tonumber(e.asked) or since, now) > e.most then return 0 end
if not (e.all or resets) and next_try - since > e.most_own then return 0 end
local hold = {since = since, next = next_try, why = e.why, resets = resets}
if not e.all then hold.task, hold.bot = e.task, KEYS[8] end
redis.pcall('HSET', KEYS[4], field, cjson.encode(hold))
if e.session ~= '' and redis.pcall('GET', KEYS[6]) == e.session then redis.call('DEL', KEYS[6]) end
redis.pcall('DEL', KEYS[7])
redis.call('LPUSH', KEYS[3], raw)
if redis.call('HGET', KEYS[2], ARGV[2]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[2]) end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
