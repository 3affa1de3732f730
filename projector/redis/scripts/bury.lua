-- Removes entries of a dead scope. ARGV[1]: generation, ARGV[2]: scope, ARGV[3..5]: how many
-- members follow of NEWEST, RUNS and the scope's TIMELINE. With none it removes the scope itself.
-- Answers whether more may be dead.
local generation, scope = ARGV[1], ARGV[2]
if redis.call('HGET', KEYS[1], 'g') ~= generation then
  return 1
end
local base = base_of(generation)
local thread = string.sub(scope, 1, 16)
local record = redis.call('HGET', base .. 't', thread)
if scope_of(thread, record) == scope then
  redis.call('ZREM', base .. 's', scope)
  return redis.call('EXISTS', base .. 's')
end

local first = 6
local keys = {base .. 'n', base .. 'r', base .. 'j' .. scope}
for n, key in ipairs(keys) do
  local stop = first + tonumber(ARGV[2 + n])
  for from = first, stop - 1, CHUNK do
    redis.call('ZREM', key, unpack(ARGV, from, math.min(from + CHUNK, stop) - 1))
  end
  first = stop
end
if redis.call('EXISTS', keys[3]) == 1 then
  return 1
end
for letter in string.gmatch('codvbwxi', '.') do
  redis.call('UNLINK', base .. letter .. scope)
end
-- Where the thread lives in a copy, chunks still lie by its incarnation.
if chunk_scope_of(thread, record) ~= scope then
  redis.call('UNLINK', base .. 'k' .. scope)
end
redis.call('ZREM', base .. 's', scope)
return redis.call('EXISTS', base .. 's')
