-- Goes in front of every script. KEYS[1] is the partition's meta key, `{tag}:meta`.
-- Danger: `<` on strings follows the server's locale; only Redis's own ranges order bytes.
-- Danger: a nil in a table cuts a reply short; what is missing is false.

local CHUNK = 1000 -- arguments of one command; `unpack` fails at about 8,000
local NO_EPOCH = string.rep('\0', 16)

local function base_of(generation)
  return string.sub(KEYS[1], 1, -5) .. generation .. ':'
end

local function sized(text)
  return struct.pack('>I4', #text) .. text
end

-- Returns the checkpoint id that stands in a member as `layout.ordered` made it.
local function unordered(id)
  if not string.find(id, '\1', 1, true) then
    return id
  end
  return (string.gsub(string.gsub(id, '\1\1', '\0'), '\1\2', '\1'))
end

local function scope_of(thread, record)
  return thread .. (record and string.sub(record, 1, 16) or NO_EPOCH)
end

-- Where chunks lie: by the thread's incarnation, 8 bytes behind the parked flag, as it stays the same
-- when a copy becomes the thread's life.
local function chunk_scope_of(thread, record)
  local half = string.rep('\0', 8)
  return thread .. half .. (record and string.sub(record, 18, 25) or half)
end

local function is_parked(record)
  return string.byte(record, 17) ~= 0
end

local function get_all(key, names)
  local found = {}
  for first = 1, #names, CHUNK do
    local last = math.min(first + CHUNK - 1, #names)
    local chunk = redis.call('HMGET', key, unpack(names, first, last))
    for n = 1, #chunk do
      found[#found + 1] = chunk[n]
    end
  end
  return found
end
