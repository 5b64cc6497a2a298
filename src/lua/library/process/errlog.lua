-- The module ngx.errlog: lines as they are, the level of the log, and the lines that lua_capture_error_log keeps.
local ffi = require "ffi"
local C = ffi.C
local type, error = type, error

ffi.cdef [[
int script_ffi_log_level(void);
void script_ffi_log_raw(int level, const char *data, size_t len);
int script_ffi_capture_filter(int level);
int script_ffi_capture_take(char *line, int *level, double *time);
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

local not_set = 'directive "lua_capture_error_log" is not set'

function errlog.set_filter_level(level)
    if level == nil then
        return nil, 'missing "level" argument'
    end
    if type(level) ~= "number" then
        error("bad argument #1 to 'set_filter_level' (number expected, got " .. type(level) .. ")", 2)
    end
    local result = C.script_ffi_capture_filter(level >= 0 and level <= 8 and level or -1)
    if result == 0 then
        return nil, not_set
    end
    if result < 0 then
        return nil, "bad log level"
    end
    return true
end

local line = require("portunus.buffer").usual
local level = ffi.new("int[1]")
local time = ffi.new("double[1]")

-- { level, time, line, level, … } of at most `max` lines, in `list` where it is given; behind them is nil.
function errlog.get_logs(max, list)
    list = list or {}
    max = max or 0
    if type(max) ~= "number" then
        error("bad argument #1 to 'get_logs' (number expected, got " .. type(max) .. ")", 2)
    end
    if type(list) ~= "table" then
        error("bad argument #2 to 'get_logs' (table expected, got " .. type(list) .. ")", 2)
    end
    local count = 0
    while max <= 0 or count < max * 3 do
        local len = C.script_ffi_capture_take(line, level, time)
        local number, seconds, text = level[0], time[0], ffi.string(line, math.max(len, 0))
        if len == -2 then
            return nil, not_set
        end
        if len < 0 then
            break
        end
        list[count + 1] = number
        list[count + 2] = seconds
        list[count + 3] = text
        count = count + 3
    end
    list[count + 1] = nil
    return list
end

return errlog
