-- ngx.var, on FFI: it is compiled with the scripts that ask it. Its arguments are the table ngx, and what fetches values.
local ngx, fetch_values = ...
local ffi = require "ffi"
local results = require "portunus.results"

ffi.cdef [[
/* What FFI declarations of scripts call whom they work for. */
typedef struct ngx_http_request_s ngx_http_request_t;
typedef struct ngx_stream_lua_request_s ngx_stream_lua_request_t;

int script_ffi_variable(const char *name, size_t len, const char **out);
int script_ffi_variable_fetched(const char *name, size_t len, const char **out);
int script_ffi_capture(int number, const char **out);
int script_ffi_variable_set(const char *name, size_t len, const char *value, size_t value_len);
]]
local C = ffi.C
local text_of = ffi.string
local error, type = error, type
local setmetatable = setmetatable

local out = ffi.new("const char *[1]")

local NONE, FIXED, DUE = results.NONE, results.FIXED, results.DUE
local fail, as_text = results.fail, results.as_text

local function get_variable(_, name)
    local result, data
    if type(name) == "number" then
        result = C.script_ffi_capture(name, out)
        data = out[0]
    elseif type(name) == "string" then
        result = C.script_ffi_variable(name, #name, out)
        data = out[0]
        if result == DUE then
            fetch_values()
            result = C.script_ffi_variable_fetched(name, #name, out)
            data = out[0]
        end
    else
        error("bad variable name", 2)
    end
    if result >= 0 then
        return (text_of(data, result))
    end
    if result ~= NONE then
        fail(result, 2)
    end
    return nil
end

local function set_variable(_, name, value)
    local result
    if type(name) ~= "string" then
        error("bad variable name", 2)
    end
    if value == nil then
        result = C.script_ffi_variable_set(name, #name, nil, 0)
    else
        value = as_text(value)
        result = C.script_ffi_variable_set(name, #name, value, #value)
    end
    if result == 0 then
        return
    end
    if result == NONE then
        error('variable "' .. name .. '" not found for writing; maybe it is a built-in variable that is not changeable or you ' ..
              'forgot to use "set $' .. name .. " '';\" in the config file to define it first", 2)
    elseif result == FIXED then
        error('variable "' .. name .. '" not changeable', 2)
    end
    fail(result, 2)
end

ngx.var = setmetatable({}, {__index = get_variable, __newindex = set_variable})
