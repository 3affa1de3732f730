-- One step of removing a retired generation. KEYS[2]: retired generations → where their scan is.
-- ARGV[1]: about how many keys to look at. Answers whether there is more to do.
-- The scan passes over all keys of the server; nothing else knows every key of a generation.
if redis.replicate_commands then
  redis.replicate_commands() -- before Redis 7 a script may not write after a scan without it
end
local entries = redis.call('HGETALL', KEYS[2])
local generation, cursor = entries[1], entries[2]
if not generation then
  return 0
end
-- A generation's name is random, so it never comes back; this is for one that did all the same.
if redis.call('HGET', KEYS[1], 'g') == generation then
  redis.call('HDEL', KEYS[2], generation)
  return #entries > 2 and 1 or 0
end
local found = redis.call('SCAN', cursor, 'MATCH', base_of(generation) .. '*', 'COUNT', ARGV[1])
for _, key in ipairs(found[2]) do
  redis.call('UNLINK', key)
end
if found[1] ~= '0' then
  redis.call('HSET', KEYS[2], generation, found[1])
  return 1
end
redis.call('HDEL', KEYS[2], generation)
return #entries > 2 and 1 or 0
