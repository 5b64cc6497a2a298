-- The module ngx.errlog: lines as they are, and the level of the log.
local ffi = require "ffi"
local C = ffi.C
local type, error = type, error

ffi.cdef [[
int script_ffi_log_level(void);
void script_ffi_log_raw(int level, const char *data, size_t len);
]]

local errlog = { version = "0.1.32" }

function errlog.get_sys_filter_level()
    return C.script_ffi_log_level()
end

function errlog.raw_log(level, message)
    if type(level) ~= "number" then
        error("bad argument #1 to 'raw_log' (must be a number)", 2)
    end
    if type(message) ~= "string" then
        error("bad argument #2 to 'raw_log' (must be a string)", 2)
    end
    if level < 0 or level > 8 then
        error("bad log level", 2)
    end
    C.script_ffi_log_raw(level, message, #message)
end

return errlog
