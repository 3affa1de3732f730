-- Renews a lease, or takes it when it is free; answers 1 if the member holds it now.
-- KEYS[1]: the lease. ARGV: member, milliseconds that it lasts.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
