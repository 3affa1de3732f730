-- ARGV[3], ARGV[4]: where the range of the run begins and ends, ARGV[5]: limit, ARGV[6]: size of
-- what stands in front of the scope. Answers {1, next offset, cursor, records, members}, with the
-- members of live scopes only.
local limit, before = tonumber(ARGV[5]), tonumber(ARGV[6])
local records, listed, kept, known = {}, {}, {}, {}
local members = redis.call('ZRANGEBYLEX', base .. 'r', ARGV[3], ARGV[4], 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local scope = string.sub(member, before + 1, before + 32)
  local thread = string.sub(scope, 1, 16)
  if known[thread] == nil then
    known[thread] = redis.call('HGET', base .. 't', thread)
  end
  local record = known[thread]
  if record and scope_of(thread, record) == scope then
    kept[#kept + 1] = member
    if not listed[thread] then
      listed[thread] = true
      records[#records + 1] = thread
      records[#records + 1] = record
    end
  end
end
local cursor = #members == limit and members[limit] or false
return {1, next_offset, cursor, records, kept}
