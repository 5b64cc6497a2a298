-- The buffer where functions of C write the bytes of a result. Between the call of C and the string that Lua makes of the bytes nothing is
-- allocated, and nothing is decided, since LuaJIT drives its collector where compiled code is left, too: then no finalizer (__gc) runs, which may
-- call such a function. Lua reads numbers without an allocation, but not pointers and size_t. Hence these functions return the number of
-- bytes, as int, and the first thing that Lua does is to make the string, or to read the one pointer that they gave.
local ffi = require "ffi"
local new, error = ffi.new, error

local SIZE = 4096 -- bytes
local MOST = 0x7fffff00 -- bytes of a string, in LuaJIT

return {
    SIZE = SIZE,
    usual = new("char[?]", SIZE),

    -- Another, for a result that may have more bytes.
    make = function(size)
        if size > MOST then
            error("not enough memory", 0)
        end
        return (new("char[?]", size))
    end,
}
