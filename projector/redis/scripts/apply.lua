-- Compare and set. KEYS[2...]: every key that changes. ARGV[1..3]: generation, fold version and
-- next offset that the changes were computed for; ARGV[4..7]: log id, partition count, next offset
-- and event id that they reach, the third one empty when values are only put in front of them.
-- ARGV[8]: operations, packed: (letter 1, index of its key 4, count of its texts 4) each; ARGV[9]:
-- the sizes of all texts, 4 each; ARGV[10]: all texts. Answers 1, or 0 with nothing changed.
--
-- Danger: an error half-way keeps what was written before it. So every write is absolute, and the
-- next offset comes last: the same changes are simply applied again.

local meta = redis.call('HMGET', KEYS[1], 'g', 'v', 'o')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then
  return 0
end

local commands = {h = 'HSET', d = 'HDEL', r = 'ZREM'}
local operations, sizes, data = ARGV[8], ARGV[9], ARGV[10]
local at, at_size, at_data = 1, 1, 1

-- Returns the next `count` texts; `step` 2 leaves a place in front of each.
local function take(count, step)
  local found = {struct.unpack('>' .. string.rep('I4', count), sizes, at_size)}
  local texts = {}
  for n = 1, count do
    local stop = at_data + found[n]
    texts[step * n] = string.sub(data, at_data, stop - 1)
    at_data = stop
  end
  at_size = at_size + 4 * count
  return texts
end

while at <= #operations do
  local letter, index, count
  letter, index, count, at = struct.unpack('>c1I4I4', operations, at)
  if letter == 'u' then
    redis.call('UNLINK', KEYS[index])
  end
  while count > 0 do
    -- CHUNK is even, so that no pair is torn.
    local some = math.min(count, CHUNK)
    count = count - some
    if letter == 'z' then
      local texts = take(some, 2)
      for n = 1, 2 * some, 2 do
        texts[n] = '0'
      end
      redis.call('ZADD', KEYS[index], unpack(texts, 1, 2 * some))
    else
      redis.call(commands[letter], KEYS[index], unpack(take(some, 1), 1, some))
    end
  end
end

if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[1], 'i', ARGV[4], 'n', ARGV[5], 'e', ARGV[7], 'o', ARGV[6])
end
return 1
