-- ngx.get_phase and the numbers of phases that libraries of OpenResty ask for, which compiled code may hold. Arguments: ngx, and the names of phases by their numbers.
local ngx, names = ...
local ffi = require "ffi"
local C = ffi.C

ffi.cdef [[
unsigned script_ffi_phase(void);
unsigned script_ffi_phase_number(void);
]]

function ngx.get_phase()
    return names[C.script_ffi_phase()]
end

-- Takes the request that base.get_request gives; it is always the one that runs.
function ngx.get_raw_phase()
    return C.script_ffi_phase_number()
end

ngx._phase_ctx = ngx.get_raw_phase
