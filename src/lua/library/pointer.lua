-- Pointers that scripts hand on to C. FFI would make one of any number, array or userdata, and C would follow it.
local ffi = require "ffi"

local typeof, cast = ffi.typeof, ffi.cast
local find, tostring, type, error = string.find, tostring, type, error

-- As void *; nil for nil and for NULL. An error in who called the caller for what is no pointer.
return function(value)
    if value == nil then
        return nil
    end
    local kind = type(value)
    if kind == "cdata" then
        local of = typeof(value)
        kind = tostring(of)
        if find(kind, "%*[%w%s&]*>$") and of ~= value then -- of a type itself typeof gives the type
            return cast("void *", value)
        end
    end
    error("pointer expected, got " .. kind, 3)
end
