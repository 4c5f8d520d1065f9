-- Before waiting for the queue: the target of the wait must not be a list, or Redis would move a task there. Tasks that were moved while it was
-- missing (Redis was emptied) go back to the head of the queue.
-- KEYS  1 hcli:mem:unmoved  2 hcli:tasks
if redis.call('SET', KEYS[1], '1', 'NX') then return 0 end
while type(redis.pcall('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'LEFT')) == 'string' do end
redis.call('SET', KEYS[1], '1')
return 1
