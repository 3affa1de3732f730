-- Registers a member and answers {1 if it is new, all members that are alive}.
-- KEYS[1]: members by the time at which they run out. ARGV: member, milliseconds that it lasts.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local added = redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {added, redis.call('ZRANGE', KEYS[1], 0, -1)}
