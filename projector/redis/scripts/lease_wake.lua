-- Wakes members. KEYS: the list that each of them waits on. ARGV: milliseconds that a call lasts.
for _, key in ipairs(KEYS) do
  if redis.call('LLEN', key) == 0 then
    redis.call('RPUSH', key, '1')
  end
  redis.call('PEXPIRE', key, ARGV[1])
end
return #KEYS
