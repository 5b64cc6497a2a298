-- Types that FFI code of users names without declaring them.
require("ffi").cdef [[
typedef struct ngx_http_request_s ngx_http_request_t;
typedef struct ngx_stream_lua_request_s ngx_stream_lua_request_t;
typedef struct { size_t len; const unsigned char *data; } ngx_str_t;
typedef struct { int len; const unsigned char *data; } ngx_http_lua_ffi_str_t;
typedef struct { int len; const unsigned char *data; } ngx_stream_lua_ffi_str_t;
]]

-- A module that is there already is given without a call of C, so that LuaJIT compiles loops around it.
local loaded, type = package.loaded, type
local load_module = require

function require(name)
    local module = loaded[name]
    local kind = type(module)
    if kind == "table" or kind == "function" then -- while it is loaded, and when that failed, there is a mark of LuaJIT
        return module
    end
    return load_module(name)
end

-- What the OpenResty branch of LuaJIT has in `table`, where the library at hand lacks it.
local preload = package.preload

local function have(name, make)
    if not pcall(require, "table." .. name) then
        preload["table." .. name] = make
    end
end

have("new", function()
    return function()
        return {}
    end
end)

have("clear", function()
    return function(t)
        for k in pairs(t) do
            t[k] = nil
        end
    end
end)

have("clone", function()
    return function(t)
        local copy = {}
        for k, v in pairs(t) do
            copy[k] = v
        end
        return copy
    end
end)

have("isempty", function()
    return function(t)
        return next(t) == nil
    end
end)

have("nkeys", function()
    return function(t)
        local count = 0
        for _ in pairs(t) do
            count = count + 1
        end
        return count
    end
end)

have("isarray", function()
    return function(t)
        for k in pairs(t) do
            if type(k) ~= "number" or k < 1 or k % 1 ~= 0 then
                return false
            end
        end
        return true
    end
end)
