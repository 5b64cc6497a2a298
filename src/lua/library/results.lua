-- What functions of C give that are called by FFI, where it is no value (http/modules/lua/ffi.h, lua/values/variables.h).
local error, type, tostring = error, type, tostring

local NO_REQUEST = -2

return {
    NONE = -3, -- there is no such value
    FIXED = -4, -- it cannot be changed
    BAD_VALUE = -5,
    DUE = -6, -- values have to be fetched first, which waits
    SEVERAL = -7, -- there is a list of values

    -- Throws what another result below 0 says. Level: of the script, as error() counts where this is called.
    fail = function(result, level)
        if result == NO_REQUEST then
            error("no request found", level + 1)
        end
        error("API disabled in the current context", level + 1)
    end,

    -- A value as C takes it.
    as_text = function(value)
        if type(value) == "string" then
            return value
        end
        return tostring(value)
    end,
}
