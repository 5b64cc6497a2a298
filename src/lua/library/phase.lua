-- ngx.get_phase, which compiled code may hold. Arguments: ngx, and the names of phases by their numbers.
local ngx, names = ...
local ffi = require "ffi"
local C = ffi.C

ffi.cdef [[
unsigned script_ffi_phase(void);
]]

function ngx.get_phase()
    return names[C.script_ffi_phase()]
end
