-- Calls f(day, ms) for each day (UTC, counted from 1970) of the time from `from` to `to`, in ms
-- since 1970; ms is the part of it in that day.
local function each_day(from, to, f)
  while from < to do
    local day = math.floor(from / 86400000)
    local till = math.min((day + 1) * 86400000, to)
    f(string.format('%d', day), string.format('%d', till - from))
    from = till
  end
end
