-- State and progress in one step. ARGV[1]: fold version, ARGV[2]: what is wanted, packed:
-- count 4, thread hashes 16 each; count 4, (thread hash 16, letter 1, size 4, field) each;
-- count 4, (size 4, key, size 4, field) each.
-- Answers {progress, records, live cells, cells}, or {progress} for another fold version.

local meta = redis.call('HMGET', KEYS[1], 'g', 'v', 'i', 'n', 'o', 'e')
if not meta[1] then
  return {false}
end
if meta[2] ~= ARGV[1] then
  return {meta}
end
local base, packed = base_of(meta[1]), ARGV[2]
local threads, live, cells, scopes = {}, {}, {}, {}

local count, at = struct.unpack('>I4', packed, 1)
for n = 1, count do
  threads[n], at = struct.unpack('c16', packed, at)
end
local records = get_all(base .. 't', threads)
for n = 1, count do
  scopes[threads[n]] = scope_of(threads[n], records[n])
end

local thread, letter, field, key
count, at = struct.unpack('>I4', packed, at)
for n = 1, count do
  thread, letter, field, at = struct.unpack('>c16c1I4c0', packed, at)
  live[n] = redis.call('HGET', base .. letter .. scopes[thread], field)
end

count, at = struct.unpack('>I4', packed, at)
for n = 1, count do
  key, field, at = struct.unpack('>I4c0I4c0', packed, at)
  cells[n] = redis.call('HGET', base .. key, field)
end
return {meta, records, live, cells}
