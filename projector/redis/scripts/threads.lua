-- ARGV[3]: where to begin, ARGV[4]: limit.
-- Answers {1, next offset, cursor, parked records, entries}; an entry is {record, id, checkpoint}
-- with the newest checkpoint of the root namespace, id false when there is none.
local start, limit = ARGV[3], tonumber(ARGV[4])
local ROOT = sized('')
local parked, entries = {}, {}
local members = redis.call('ZREVRANGEBYLEX', base .. 'a', start, '-', 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local thread = string.sub(member, 9)
  local record = redis.call('HGET', base .. 't', thread)
  if record and is_parked(record) then
    parked[#parked + 1] = record
  elseif record then
    local scope = scope_of(thread, record)
    local id = latest(scope, ROOT)
    local row = id and redis.call('HGET', base .. 'c' .. scope, ROOT .. sized(id))
    entries[#entries + 1] = {record, id, row and bare(scope, ROOT, row)}
  end
end
local cursor = #members == limit and members[limit] or false
return {1, next_offset, cursor, parked, entries}
