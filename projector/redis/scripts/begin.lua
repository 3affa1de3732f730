-- ARGV: generation, fold version, log id, partition count, next offset, last event id.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call(
  'HSET', KEYS[1],
  'g', ARGV[1], 'v', ARGV[2], 'i', ARGV[3], 'n', ARGV[4], 'o', ARGV[5], 'e', ARGV[6]
)
return 1
