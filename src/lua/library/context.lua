-- ngx.ctx: a table of a script's own for each request, session, timer.
local ffi = require "ffi"
local properties = require "portunus.properties"
local set_context, registry = ...

ffi.cdef [[
int script_ffi_context(void); // its place in the registry; 0: it was not asked for yet; -1: there is nobody to have one
]]
local C = ffi.C
local error, type = error, type

function properties.get.ctx()
    local place = C.script_ffi_context()
    if place > 0 then
        return registry[place]
    end
    if place < 0 then
        error("no request ctx found", 2)
    end
    local context = {}
    set_context(context)
    return context
end

function properties.set.ctx(context)
    if type(context) ~= "table" then
        error("ctx should be a table while getting a " .. type(context), 2)
    end
    if C.script_ffi_context() < 0 then
        error("no request ctx found", 2)
    end
    set_context(context)
end
