-- ngx.ctx: a table of a script's own for each request, session, timer.
local ffi = require "ffi"
local properties = require "portunus.properties"
local set_context, contexts = ...

ffi.cdef [[
int script_ffi_context(void); // its place among the contexts; 0: it was not asked for yet; -1: there is nobody to have one; -2: in init_by_lua
int script_ffi_context_before(void); // the place of the one that a new one is a copy of, or 0; only where there is somebody
]]
local C = ffi.C
local error, pairs, type = error, pairs, type

-- The table; a new one, or `fresh`, where there is none yet.
local function get_context(fresh)
    local place = C.script_ffi_context()
    if place > 0 then
        return contexts[place]
    end
    if place < 0 then
        error(place == -2 and "no request found" or "no request ctx found", 2)
    end
    local context = fresh or {}
    local before = C.script_ffi_context_before()
    if before > 0 then
        for key, value in pairs(contexts[before]) do
            context[key] = value
        end
    end
    set_context(context)
    return context
end

function properties.get.ctx()
    return get_context()
end

function properties.set.ctx(context)
    if type(context) ~= "table" then
        error("ctx should be a table while getting a " .. type(context), 2)
    end
    local place = C.script_ffi_context()
    if place > 0 then
        contexts[place] = context
    elseif place < 0 then
        error(place == -2 and "no request found" or "no request ctx found", 2)
    else
        set_context(context)
    end
end

package.preload["resty.core.ctx"] = function()
    return {
        _VERSION = "0.1.32",
        get_ctx_table = get_context,
        set_ctx_table = properties.set.ctx,
    }
end
