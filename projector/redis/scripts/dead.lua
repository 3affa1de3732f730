-- What is to be removed of the first dead scope. ARGV[1]: fold version, ARGV[2]: limit.
-- Answers {generation, scope, members of its timeline, their rows}, or {} when nothing is dead.
local meta = redis.call('HMGET', KEYS[1], 'g', 'v')
if not meta[1] or meta[2] ~= ARGV[1] then
  return {}
end
local base = base_of(meta[1])
local scope = redis.call('ZRANGE', base .. 's', 0, 0)[1]
if not scope then
  return {}
end
local members = redis.call('ZRANGE', base .. 'j' .. scope, 0, tonumber(ARGV[2]) - 1)
local fields = {}
for n, member in ipairs(members) do
  local size = struct.unpack('>I4', member, #member - 3)
  local stop = #member - 4 - size
  local id = unordered(string.sub(member, 1, stop - 1))
  fields[n] = sized(string.sub(member, stop + 1, stop + size)) .. sized(id)
end
return {meta[1], scope, members, get_all(base .. 'c' .. scope, fields)}
