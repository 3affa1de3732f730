-- Gives a lease back if the member holds it. KEYS[1]: the lease. ARGV: member.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
