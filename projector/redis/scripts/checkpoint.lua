-- ARGV[3]: thread hash, ARGV[4]: namespace prefix, ARGV[5]: how many times the usual size the answer
-- may have, ARGV[6]: checkpoint id, none for the latest.
-- Answers {1, next offset, record, id, checkpoint}; id is false when there is no such checkpoint.
local thread, namespace, id = ARGV[3], ARGV[4], ARGV[6]
local record = redis.call('HGET', base .. 't', thread)
if not record or is_parked(record) then
  return {1, next_offset, record, false, false}
end
local scope = scope_of(thread, record)
id = id or latest(scope, namespace)
if not id then
  return {1, next_offset, record, false, false}
end
local field = namespace .. sized(id)
local row = redis.call('HGET', base .. 'c' .. scope, field)
if not row then
  -- An id from the index without a row is a contradiction, which the caller reports.
  return {1, next_offset, record, not ARGV[6] and id or false, false}
end
return {1, next_offset, record, id, whole(scope, namespace, field, row, ARGV[5])}
