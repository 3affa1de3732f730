-- ARGV[3]: thread hash, ARGV[4]: field of REMOVED to look for, or nothing.
local thread, field = ARGV[3], ARGV[4]
local record = redis.call('HGET', base .. 't', thread)
local is_removed = 0
if record and field then
  is_removed = redis.call('HEXISTS', base .. 'd' .. scope_of(thread, record), field)
end
return {1, next_offset, record, is_removed}
