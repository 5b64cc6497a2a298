-- lua_memory_limit: a single call that would take more than all of it fails before it takes anything.
local limit = ...
local rep = string.rep
local error, type = error, type

function string.rep(s, n, separator)
    if type(s) == "string" and type(n) == "number" then
        local len = #s
        if type(separator) == "string" then
            len = len + #separator
        end
        if len * n > limit then
            error("not enough memory", 0)
        end
    end
    return (rep(s, n, separator))
end
