-- Compare and set. KEYS[2...]: every key that changes. ARGV[1..3]: generation, fold version and
-- next offset that the changes were computed for; ARGV[4..7]: log id, partition count, next offset
-- and event id that they reach, the third one empty when values are only put in front of them.
-- ARGV[8]: operations, packed: (letter 1, index of its key 4, count of its arguments 4) each;
-- ARGV[9...]: their arguments. Answers 1, or 0 with nothing changed.
--
-- Danger: an error half-way keeps what was written before it. So every write is absolute, and the
-- next offset comes last: the same changes are simply applied again.

local meta = redis.call('HMGET', KEYS[1], 'g', 'v', 'o')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then
  return 0
end

local commands = {h = 'HSET', d = 'HDEL', z = 'ZADD', r = 'ZREM'}
local operations, at, first = ARGV[8], 1, 9
local letter, index, count
while at <= #operations do
  letter, index, count, at = struct.unpack('>c1I4I4', operations, at)
  if letter == 'u' then
    redis.call('UNLINK', KEYS[index])
  end
  -- CHUNK is even, so that no pair is torn.
  for from = first, first + count - 1, CHUNK do
    local last = math.min(from + CHUNK, first + count) - 1
    redis.call(commands[letter], KEYS[index], unpack(ARGV, from, last))
  end
  first = first + count
end

if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[1], 'i', ARGV[4], 'n', ARGV[5], 'e', ARGV[7], 'o', ARGV[6])
end
return 1
