-- Times that do not jump.
local C = require("ffi").C

local time = { version = "0.1.32" }

function time.monotonic_msec()
    return C.script_ffi_monotonic_ms()
end

function time.monotonic_time()
    return C.script_ffi_monotonic_ms() / 1000
end

return time
