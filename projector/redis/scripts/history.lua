-- ARGV[3]: thread hash, ARGV[4]: namespace prefix, ARGV[5]: 'latest', 'id' or 'parent',
-- ARGV[6]: id to begin at, or ancestor to go on with, ARGV[7]: how many times the usual length this
-- call may be, ARGV[8...]: channels that are still open.
-- Answers {1, next offset, record, mark, ancestor to go on with or false, ancestors, event id and
-- offset of where the walk begins or false}; an ancestor is {event id and offset, members, writes,
-- closed}, closed a flat list of: channel, kind, offset, and the value or, where it is unresolved,
-- the row. For the mark see `mark_of`.
local thread, namespace, mode, parent = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local most_ancestors, most_bytes = 300 * ARGV[7], 524288 * ARGV[7]
local record = redis.call('HGET', base .. 't', thread)
local scope = scope_of(thread, record)
local mark = mark_of(thread, record)
if not record or is_parked(record) then
  return {1, next_offset, record, mark, false, {}, false}
end
local rows, ancestors, seen, spent = base .. 'c' .. scope, {}, {}, 0
local start = false

-- Event id and offset: events of one call may share the id.
local function event_of(row)
  return string.sub(row, 1, 24)
end

if mode ~= 'parent' then
  local id = parent
  if mode == 'latest' then
    id = latest(scope, namespace)
  end
  local row = id and redis.call('HGET', rows, namespace .. sized(id))
  parent = row and parent_of(row)
  if row then
    -- A checkpoint put again under one of its descendants is no ancestor of itself.
    start = event_of(row)
    seen[start] = true
  end
end

local open, open_count = {}, 0
for n = 8, #ARGV do
  open[ARGV[n]] = true
  open_count = open_count + 1
end

local function row_of(field)
  local row = redis.call('HGET', rows, field)
  if row then
    return row
  end
  local removed = redis.call('HGET', base .. 'd' .. scope, field)
  return removed and redis.call('HGET', base .. 'o' .. scope, string.sub(removed, 5))
end

while parent and open_count > 0 do
  if #ancestors >= most_ancestors or spent >= most_bytes then
    return {1, next_offset, record, mark, parent, ancestors, start}
  end
  local field = namespace .. sized(parent)
  local row = row_of(field)
  local event = row and event_of(row)
  if not row or seen[event] then
    break
  end
  seen[event] = true
  local members, writes = writes_of(scope, field, row, INLINE * ARGV[7])
  local closed = {}
  each_channel(row, function(name, kind, offset)
    if open[name] and kind ~= '\0' then
      open[name] = nil
      open_count = open_count - 1
      local found = row
      if kind == '\1' then
        local entry = redis.call('HGET', base .. 'v' .. scope, offset .. name)
        found = assembled(scope, name, entry, INLINE)
      end
      local at = #closed
      closed[at + 1], closed[at + 2], closed[at + 3], closed[at + 4] = name, kind, offset, found
      spent = spent + size_of({found})
    end
  end)
  spent = spent + size_of(writes) + size_of(members) + 32
  ancestors[#ancestors + 1] = {event, members, writes, closed}
  parent = parent_of(row)
end
return {1, next_offset, record, mark, false, ancestors, start}
