-- ngx.status and ngx.req.start_time of sessions, and what is under ngx in http alone.
local ffi = require "ffi"
local properties = require "portunus.properties"

ffi.cdef [[
int stream_lua_ffi_status(void);
int stream_lua_ffi_status_set(int status);
double stream_lua_ffi_start_time(void);
]]
local C = ffi.C
local error, tonumber, type = error, tonumber, type
local fail = require("portunus.results").fail

function properties.get.status()
    local result = C.stream_lua_ffi_status()
    if result < 0 then
        fail(result, 3)
    end
    return result
end

function properties.set.status(status)
    local number = tonumber(status)
    if not number then
        error("bad status: number expected, got " .. type(status), 3)
    end
    local result = C.stream_lua_ffi_status_set(number)
    if result ~= 0 then
        fail(result, 3)
    end
end

ngx.req.start_time = function()
    local seconds = C.stream_lua_ffi_start_time()
    if seconds < 0 then
        error("no request found", 2)
    end
    return seconds
end

-- HTTP's dates, and encodings of mail: OpenResty has them in its http module only.
for _, name in ipairs({"http_time", "cookie_time", "parse_http_time", "decode_base64mime"}) do
    ngx[name] = nil
end
