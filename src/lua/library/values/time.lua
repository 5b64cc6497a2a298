-- Times: ngx.now, ngx.time, ngx.http_time and their kin. All but update_time tell the time of this turn of the loop.
local ngx = ...
local ffi = require "ffi"
local C = ffi.C
local string_of = ffi.string
local type, error, tonumber = type, error, tonumber

ffi.cdef [[
extern struct script_clock { uint64_t now_ms; long seconds; unsigned milliseconds; } clock_now;
void script_ffi_update_time(void);
double script_ffi_monotonic_ms(void);
int script_ffi_clock_text(int which, char *out);
int script_ffi_http_time(double seconds, int is_cookie, char *out);
double script_ffi_parse_http_time(const char *data, size_t len);
]]

local out = require("portunus.buffer").usual
local clock = C.clock_now
local TODAY, LOCALTIME, UTCTIME = 0, 1, 2

function ngx.now()
    return tonumber(clock.seconds) + clock.milliseconds / 1000
end

function ngx.time()
    return tonumber(clock.seconds)
end

function ngx.update_time()
    C.script_ffi_update_time()
end

function ngx.today()
    local len = C.script_ffi_clock_text(TODAY, out)
    return (string_of(out, len))
end

function ngx.localtime()
    local len = C.script_ffi_clock_text(LOCALTIME, out)
    return (string_of(out, len))
end

function ngx.utctime()
    local len = C.script_ffi_clock_text(UTCTIME, out)
    return (string_of(out, len))
end

function ngx.http_time(seconds)
    if type(seconds) ~= "number" then
        error("number argument only", 2)
    end
    local len = C.script_ffi_http_time(seconds, 0, out)
    return (string_of(out, len))
end

function ngx.cookie_time(seconds)
    if type(seconds) ~= "number" then
        error("number argument only", 2)
    end
    local len = C.script_ffi_http_time(seconds, 1, out)
    return (string_of(out, len))
end

function ngx.parse_http_time(text)
    if type(text) ~= "string" then
        error("string argument only", 2)
    end
    local seconds = C.script_ffi_parse_http_time(text, #text)
    if seconds < 0 then
        return nil
    end
    return seconds
end
