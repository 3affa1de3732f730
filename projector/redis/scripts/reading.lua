-- Goes in front of every question. ARGV[1]: fold version, ARGV[2]: bound.
-- Answers {0, next offset} when the view does not cover the bound, else {1, next offset, ...}.

local meta = redis.call('HMGET', KEYS[1], 'g', 'v', 'o')
if not meta[1] or meta[2] ~= ARGV[1] then
  return {0, '0'}
end
local next_offset = meta[3]
if tonumber(next_offset) < tonumber(ARGV[2]) then
  return {0, next_offset}
end
local base = base_of(meta[1])

-- A row begins: event id 16, offset 8, life 4, parent flag 1, its size 4, its text, channels.
local function parent_of(row)
  if string.byte(row, 29) == 0 then
    return false
  end
  return (struct.unpack('>I4c0', row, 30))
end

-- Calls `visit(name, kind, offset)` for each channel; kind and offset are raw bytes.
local function each_channel(row, visit)
  local at = 34 + struct.unpack('>I4', row, 30)
  local count, name, kind, offset
  count, at = struct.unpack('>I2', row, at)
  for _ = 1, count do
    name, kind, offset, at = struct.unpack('>I2c0c1c8', row, at)
    visit(name, kind, offset)
  end
end

local function size_of(list)
  local size = 0
  for n = 1, #list do
    if type(list[n]) == 'table' then
      size = size + size_of(list[n])
    elseif type(list[n]) == 'number' then
      size = size + list[n]
    elseif list[n] then
      size = size + #list[n]
    end
  end
  return size
end

local INLINE = 1048576 -- bytes of values and writes that stand in the answer of one checkpoint

-- Another one once the log has told more of a thread: every record of it adds a note. Chunks and
-- void manifests tell nothing yet, and may go again: they are not counted.
local function mark_of(thread, record)
  local told = redis.call('HLEN', base .. 'l' .. thread)
  local held = redis.call('HLEN', base .. 'k' .. chunk_scope_of(thread, record))
  return meta[1] .. scope_of(thread, record) .. told - held
end

local AT_ONCE = 4 -- cells that are read before their sizes are looked at

-- Cells of a map as far as they fit into `left` bytes; of any other one its size, for the caller to
-- fetch it by another call. Returns them, and what is left then.
local function get_fitting(key, names, left)
  local found = {}
  for first = 1, #names, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #names)
    local is_full = left <= 0
    local cells = is_full and {} or redis.call('HMGET', key, unpack(names, first, last))
    for n = first, last do
      local cell = cells[n - first + 1]
      local size = is_full and redis.call('HSTRLEN', key, names[n]) or cell and #cell or 0
      -- Once something is left out nothing large is read any more, so that this ends soon.
      if size > left then
        found[n], left = size, 0
      elseif not is_full then
        found[n], left = cell, left - size
      else
        found[n] = redis.call('HGET', key, names[n])
      end
    end
  end
  return found, left
end

-- The writes on a checkpoint in the life that its row belongs to: members, entries as far as they
-- fit into `left` bytes.
local function writes_of(scope, field, row, left)
  local prefix = field .. string.sub(row, 25, 28)
  local members =
    redis.call('ZRANGEBYLEX', base .. 'x' .. scope, '[' .. prefix, '(' .. prefix .. '\255')
  if #members == 0 then
    return members, members
  end
  return members, (get_fitting(base .. 'w' .. scope, members, left))
end

-- A checkpoint without values and writes: {row, parent is removed}.
local function bare(scope, namespace, row)
  local parent, is_removed = parent_of(row), 0
  if parent then
    local field = namespace .. sized(parent)
    if redis.call('HEXISTS', base .. 'c' .. scope, field) == 0 then
      is_removed = redis.call('HEXISTS', base .. 'd' .. scope, field)
    end
  end
  return {row, is_removed}
end

-- An entry of the values begins: count of pieces 2, digest 16, type with its size 2. Where its
-- content begins:
local function content_at(entry)
  return 21 + struct.unpack('>I2', entry, 19)
end

local BLOCK = 4096 -- bytes of a full block; the tip is its buffer's length 8 and the rest

-- Appends to `parts` the bytes [start, stop) of a channel's buffer, in parts: joining them here
-- takes ten times as long as in the caller. Returns how many there were: fewer when some are gone.
local function add_from_buffer(parts, scope, buffer, start, stop)
  local key, first = base .. 'b' .. scope, math.floor(start / BLOCK)
  local fields = {}
  for number = first, math.floor((stop - 1) / BLOCK) do
    fields[#fields + 1] = buffer .. struct.pack('>I8', number)
  end
  local blocks = get_all(key, fields)
  if not blocks[#blocks] then
    local tip = redis.call('HGET', key, buffer .. string.rep('\255', 8))
    if tip and math.floor(struct.unpack('>I8', tip) / BLOCK) == first + #fields - 1 then
      blocks[#blocks] = string.sub(tip, 9)
    end
  end
  local found = 0
  for n = 1, #blocks do
    local at = (first + n - 1) * BLOCK
    local block = blocks[n] or ''
    if at < start or at + #block > stop then
      block = string.sub(block, math.max(start - at, 0) + 1, stop - at)
    end
    found = found + #block
    parts[#parts + 1] = block
  end
  return found
end

local MOST_PIECES = 1024 -- are looked up within about a millisecond

-- Returns how many bytes the pieces have that begin at `at`, and whether some of them are chunks.
local function weigh(entry, count, at)
  local size, has_chunks = 0, false
  local source, start, stop
  for _ = 1, count do
    source, start, stop, at = struct.unpack('>c1xxxxxxxxI8I8', entry, at)
    size = size + stop - start
    has_chunks = has_chunks or source == 'k'
  end
  return size, has_chunks
end

-- Returns an entry with the contents of its pieces in their place, as a list of parts to be joined;
-- a whole value as it is; false when a piece is missing; its size when it does not fit into `left`
-- bytes, or has chunks or very many pieces. Returns what is left then, too.
local function assembled(scope, name, entry, left)
  local count = type(entry) == 'string' and struct.unpack('>I2', entry) or 0
  if count == 0 then
    return entry, left
  end
  local at = content_at(entry)
  local namespace, source, offset, start, stop
  local parts = {string.sub(entry, 1, at - 1)}
  namespace, parts[2], at = struct.unpack('>I4c0I2c0', entry, at)
  local size, has_chunks = weigh(entry, count, at)
  if size > left or has_chunks or count > MOST_PIECES then
    return size, left
  end
  local buffer = sized(namespace) .. sized(name)
  for n = 1, count do
    source, offset, start, stop, at = struct.unpack('>c1c8I8I8', entry, at)
    local found = 0
    if source == 'b' then
      found = add_from_buffer(parts, scope, buffer, start, stop)
    else
      local value = redis.call('HGET', base .. 'v' .. scope, offset .. name)
      if value and struct.unpack('>I2', value) == 0 then
        local from = content_at(value)
        local part = string.sub(value, from + start, from + stop - 1)
        found, parts[#parts + 1] = #part, part
      end
    end
    if found ~= stop - start then
      return false, left
    end
  end
  return parts, left - size
end

-- A checkpoint with all that belongs to it: {row, parent is removed, values, members, writes, mark},
-- as much of it as makes `scale` times the usual size. The mark is there when writes are left out.
local function whole(scope, namespace, field, row, scale)
  local fields, names = {}, {}
  each_channel(row, function(name, kind, offset)
    if kind == '\1' then
      fields[#fields + 1] = offset .. name
      names[#names + 1] = name
    end
  end)
  local values, left = get_fitting(base .. 'v' .. scope, fields, INLINE * scale)
  for n, name in ipairs(names) do
    values[n], left = assembled(scope, name, values[n], left)
  end
  local members, writes = writes_of(scope, field, row, left)
  local found = bare(scope, namespace, row)
  found[3], found[4], found[5] = values, members, writes
  for n = 1, #writes do
    if type(writes[n]) == 'number' then
      local thread = string.sub(scope, 1, 16)
      found[6] = mark_of(thread, redis.call('HGET', base .. 't', thread))
      break
    end
  end
  return found
end

-- The greatest id in a namespace, or false.
local function latest(scope, namespace)
  local found = redis.call(
    'ZREVRANGEBYLEX', base .. 'i' .. scope,
    '(' .. namespace .. '\255', '[' .. namespace, 'LIMIT', 0, 1
  )
  return found[1] and string.sub(found[1], #namespace + 1) or false
end
