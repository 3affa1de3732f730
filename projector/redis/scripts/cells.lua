-- Cells of a thread's life, for what an answer left out. ARGV[3]: thread hash, ARGV[4]: epoch of the
-- life, ARGV[5]: what is wanted, packed: (letter 1, size 4, field) each; for what may change within
-- a life also ARGV[6]: the mark, see `mark_of`, and ARGV[7]: the next offset, '' for any.
-- Answers {1, next offset, cells}: as many of the first ones as make about half a megabyte, at least
-- one; or {1, next offset, false} when the thread lives another life by now, or has another mark.
local MOST_BYTES = 524288
local thread, epoch, packed = ARGV[3], ARGV[4], ARGV[5]
local record = redis.call('HGET', base .. 't', thread)
if not record or is_parked(record) or string.sub(record, 1, 16) ~= epoch then
  return {1, next_offset, false}
end
if ARGV[6] and (ARGV[6] ~= mark_of(thread, record) or ARGV[7] ~= '' and ARGV[7] ~= next_offset) then
  return {1, next_offset, false}
end
local scopes = {k = chunk_scope_of(thread, record)}
local cells, spent, at = {}, 0, 1
local letter, field
while at <= #packed do
  letter, field, at = struct.unpack('>c1I4c0', packed, at)
  -- A buffer's last block and its tip must be of one state: blocks are small, and never left out.
  if spent >= MOST_BYTES and letter ~= 'b' then
    break
  end
  local cell = redis.call('HGET', base .. letter .. (scopes[letter] or thread .. epoch), field)
  cells[#cells + 1] = cell
  spent = spent + (cell and #cell or 0)
end
return {1, next_offset, cells}
