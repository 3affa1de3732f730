-- ARGV[3]: which index ('i' of a namespace, 'j' of a thread, 'n' of all threads),
-- ARGV[4]: thread hash or '', ARGV[5]: command, ARGV[6], ARGV[7]: where the range begins and ends,
-- ARGV[8]: limit, ARGV[9]: '1' with values, ARGV[10]: how many times the usual size a checkpoint may
-- have, ARGV[11]: namespace to keep, none for all.
-- Answers {1, next offset, cursor, records, parked records, entries}; an entry is
-- {thread hash, member, checkpoint}, false for a checkpoint without a row. Work and size are
-- bounded: it may stop early with a cursor.
local MOST_EXAMINED, MOST_BYTES = 1000, 524288
local index, thread, command, start, stop = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local limit, with_values, only = tonumber(ARGV[8]), ARGV[9] == '1', ARGV[11]
local records, record_list, parked, entries, scopes = {}, {}, {}, {}, {}

-- Looks a thread up once, and sorts it in: live with its scope, or passed over.
local function scope_of_thread(hash)
  if scopes[hash] == nil then
    local record = redis.call('HGET', base .. 't', hash)
    scopes[hash] = false
    if record and is_parked(record) then
      parked[#parked + 1] = record
    elseif record then
      scopes[hash] = scope_of(hash, record)
      record_list[#record_list + 1] = hash
      record_list[#record_list + 1] = record
    end
  end
  return scopes[hash]
end

local key = base .. index
if thread ~= '' then
  local scope = scope_of_thread(thread)
  if not scope then
    return {1, next_offset, false, record_list, parked, entries}
  end
  key = key .. scope
end

-- Returns hash, scope, namespace, id of an index's member; nothing when it does not count.
local function parse(member)
  if index == 'i' then
    local namespace, at = struct.unpack('>I4c0', member, 1)
    return thread, scopes[thread], namespace, string.sub(member, at)
  end
  local size = struct.unpack('>I4', member, #member - 3)
  local from = #member - 4 - size
  local namespace = string.sub(member, from + 1, from + size)
  if only and namespace ~= only then
    return nil
  end
  if index == 'j' then
    return thread, scopes[thread], namespace, unordered(string.sub(member, 1, from - 1))
  end
  local scope = string.sub(member, from - 31, from)
  local hash = string.sub(scope, 1, 16)
  if scope_of_thread(hash) ~= scope then
    return nil
  end
  return hash, scope, namespace, unordered(string.sub(member, 1, from - 33))
end

local examined, spent, cursor, is_over = 0, 0, false, false
while not is_over do
  local want = limit - #entries
  if index == 'n' or only then
    want = math.max(want, 50)
  end
  local members = redis.call(command, key, start, stop, 'LIMIT', 0, want)
  for n, member in ipairs(members) do
    local hash, scope, namespace, id = parse(member)
    if hash then
      local prefix = sized(namespace)
      local field = prefix .. sized(id)
      local row = redis.call('HGET', base .. 'c' .. scope, field)
      local found = false
      if row and with_values then
        found = whole(scope, prefix, field, row, ARGV[10])
        spent = spent + #row + size_of(found[3]) + size_of(found[5])
      elseif row then
        found = bare(scope, prefix, row)
        spent = spent + #row
      end
      entries[#entries + 1] = {hash, member, found}
    end
    examined = examined + 1
    cursor = member
    if #entries >= limit or examined >= MOST_EXAMINED or spent >= MOST_BYTES then
      is_over = true
      if n == #members and #members < want then
        cursor = false
      end
      break
    end
  end
  if not is_over and #members < want then
    cursor, is_over = false, true
  end
  start = cursor and '(' .. cursor
end
return {1, next_offset, cursor, record_list, parked, entries}
