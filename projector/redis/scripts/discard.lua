-- KEYS[2]: retired generations. The progress goes first: from then on nobody reads or applies.
local generation = redis.call('HGET', KEYS[1], 'g')
if not generation then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], generation, '0')
return 1
