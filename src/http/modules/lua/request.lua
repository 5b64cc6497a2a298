-- ngx.var, ngx.header, ngx.status, ngx.req.get_headers and their kin: what scripts call often, on FFI, so that it is compiled with them.
local ffi = require "ffi"
local properties = require "portunus.properties"
local results = require "portunus.results"

ffi.cdef [[
typedef struct { const char *data; size_t len; } lua_ffi_str;
typedef struct { lua_ffi_str name, value; } http_lua_ffi_pair;
typedef struct { lua_ffi_str rest; unsigned max, count; } script_args;

const void *http_lua_ffi_value_function(const char *name, size_t len, int *least, int *most);
int http_lua_ffi_value_compute(const void *function, int count, const char *first, size_t first_len, const char *second, size_t second_len,
                               char *out, int size);
int http_lua_ffi_request_fields(void);
int http_lua_ffi_request_field(int number, http_lua_ffi_pair *out);
int http_lua_ffi_request_field_set(const char *name, size_t len, const char *value, size_t value_len, int appends);
int http_lua_ffi_response_fields(void);
int http_lua_ffi_response_made(void);
int http_lua_ffi_response_field(int number, http_lua_ffi_pair *out);
int http_lua_ffi_response_get(const char *name, size_t len, const char **out);
int http_lua_ffi_response_next(const char *name, size_t len, int *number, const char **out);
int http_lua_ffi_response_field_set(const char *name, size_t len, const char *value, size_t value_len, int appends);
int http_lua_ffi_status(void);
int http_lua_ffi_status_set(int status);
int http_lua_ffi_reason_set(const char *reason, size_t len);
int http_lua_ffi_bypass_checks(void);
int http_lua_ffi_is_head_sent(void);
int http_lua_ffi_is_subrequest(void);
int http_lua_ffi_is_internal(void);
int http_lua_ffi_method(const char **out);
int http_lua_ffi_method_set(int number);
double http_lua_ffi_start_time(void);
int http_lua_ffi_uri_args(const char **out);
int script_ffi_args_next(script_args *args, char *room, http_lua_ffi_pair *out);
]]
local C = ffi.C
local text_of, cast = ffi.string, ffi.cast
local error, pcall, type, tostring, tonumber, rawget = error, pcall, type, tostring, tonumber, rawget
local lower, gsub, find = string.lower, string.gsub, string.find
local select, setmetatable = select, setmetatable
local min_of, max_of = math.min, math.max

local buffer = require "portunus.buffer"
local SIZE = buffer.SIZE

local out = ffi.new("const char *[1]") -- read at once

-- A function that makes several strings reads memory of its own meanwhile, with which `make` makes it. When a finalizer (__gc) calls it then,
-- that call gets another. (One that failed, for want of memory, stays in use.)
local function exclusive(make)
    local usual, is_in_use = make(), false
    return function(a, b, c, d, e)
        if is_in_use then
            return make()(a, b, c, d, e)
        end
        is_in_use = true
        local first, second = usual(a, b, c, d, e)
        is_in_use = false
        if second then
            return first, second
        end
        return first
    end
end

local BAD_VALUE, NONE, SEVERAL = results.BAD_VALUE, results.NONE, results.SEVERAL
local fail, as_text = results.fail, results.as_text
local MADE = C.http_lua_ffi_response_made() -- fields of a response that are no part of its list
local MAX = 100 -- fields and arguments that are given unless a script says how many

-- What tells requests from each other, to libraries: not NULL where there is one.
local has_exdata, exdata_of_thread = pcall(require, "thread.exdata")
exdata = has_exdata and exdata_of_thread or nil

-- ---- ndk.set_var

-- The function of a directive, as one of Lua.
local function value_function(name)
    local least, most = ffi.new("int[1]"), ffi.new("int[1]")
    local compute = C.http_lua_ffi_value_function(name, #name, least, most)
    if compute == nil then
        return nil
    end
    local fewest, most_of_all = least[0], most[0]
    return function(first, second, ...)
        local count = second ~= nil and 2 + select("#", ...) or first ~= nil and 1 or 0
        if count < fewest or count > most_of_all then
            error("bad number of arguments: " .. most_of_all .. " expected, got " .. count, 2)
        end
        first = as_text(first)
        second = as_text(second)
        local size, value = SIZE, buffer.usual
        local len = C.http_lua_ffi_value_compute(compute, count, first, #first, second, #second, value, size)
        local text = text_of(value, max_of(min_of(len, size), 0))
        while len > size do
            size, value = len, buffer.make(len)
            len = C.http_lua_ffi_value_compute(compute, count, first, #first, second, #second, value, size)
            text = text_of(value, max_of(min_of(len, size), 0))
        end
        if len < 0 then
            error("calling directive " .. name .. " failed with code -1", 2)
        end
        return text
    end
end

-- By name: there are as many as directives.
local value_functions = {}

ndk = {
    set_var = setmetatable({}, {
        __index = function(_, name)
            local found = value_functions[name]
            if not found then
                found = value_function(as_text(name))
                if not found then
                    error('ndk.set_var: directive "' .. as_text(name) .. '" not found or does not use ndk_set_var_value', 2)
                end
                value_functions[name] = found
            end
            return found
        end,
        __newindex = function()
            error("not allowed", 2)
        end,
    }),
}
package.loaded.ndk = ndk

-- ---- fields of heads

-- t.User_Agent is t["user-agent"].
local fields_meta = {
    __index = function(fields, name)
        if type(name) ~= "string" then
            return nil
        end
        name = lower(name)
        if find(name, "_", 1, true) then
            name = gsub(name, "_", "-")
        end
        return (rawget(fields, name)) -- no trace ends in a tail call
    end,
}

-- Values of a name that comes again are a list.
local function put_in(values, name, value)
    local former = values[name]
    if former == nil then
        values[name] = value
    elseif type(former) == "table" then
        former[#former + 1] = value
    else
        values[name] = {former, value}
    end
end

-- All fields, of which `at` gives one by number; those that come again as a list. The first `uncounted` are given whatever max is.
local give_fields = exclusive(function()
    local pair = ffi.new("http_lua_ffi_pair[1]")
    return function(count, at, max, is_raw, uncounted)
        max = max and tonumber(cast("int", max)) or MAX
        if max <= 0 then
            max = count
        end
        local fields, given, is_cut = {}, 0, nil
        for i = 0, count - 1 do
            if at(i, pair) == 0 then
                if i >= uncounted then
                    if given == max then
                        is_cut = "truncated"
                        break
                    end
                    given = given + 1
                end
                local name = text_of(pair[0].name.data, pair[0].name.len)
                local value = text_of(pair[0].value.data, pair[0].value.len)
                if not is_raw then
                    name = lower(name)
                end
                if fields[name] == nil then
                    fields[name] = value
                else
                    put_in(fields, name, value)
                end
            end
        end
        if not is_raw then
            setmetatable(fields, fields_meta)
        end
        if is_cut then
            return fields, is_cut
        end
        return fields
    end
end)

-- A value, or a list of them, of one name; `set` is the function of C.
local function set_field(set, name, value, appends, level)
    local result
    if type(name) ~= "string" then
        name = as_text(name)
    end
    if type(value) ~= "table" then
        if value == nil then
            result = set(name, #name, nil, 0, 0)
        else
            if type(value) ~= "string" then
                value = as_text(value)
            end
            result = set(name, #name, value, #value, appends)
        end
    elseif #value == 0 then
        result = set(name, #name, nil, 0, 0)
    else
        for i = 1, #value do
            local item = as_text(value[i])
            result = set(name, #name, item, #item, appends)
            if result ~= 0 then
                break
            end
            appends = 1
        end
    end
    if result == BAD_VALUE then
        error("failed to set header", level + 1)
    elseif result ~= 0 then
        fail(result, level + 1)
    end
end

-- ---- ngx.req

local req = ngx.req

function req.get_headers(max, is_raw)
    local count = C.http_lua_ffi_request_fields()
    if count < 0 then
        fail(count, 2)
    end
    return give_fields(count, C.http_lua_ffi_request_field, max, is_raw, 0)
end

function req.set_header(name, value)
    if name == nil then
        error("bad 'name' argument: string expected, got nil", 2)
    end
    if type(name) == "string" and type(value) == "string" and
            C.http_lua_ffi_request_field_set(name, #name, value, #value, 0) == 0 then
        return
    end
    set_field(C.http_lua_ffi_request_field_set, name, value, 0, 2)
end

function req.clear_header(name)
    set_field(C.http_lua_ffi_request_field_set, name, nil, 0, 2)
end

function req.get_method()
    local len = C.http_lua_ffi_method(out)
    local text = out[0]
    if len < 0 then
        fail(len, 2)
    end
    return (text_of(text, len))
end

function req.set_method(number)
    if type(number) ~= "number" then
        error("bad method number", 2)
    end
    local result = C.http_lua_ffi_method_set(number)
    if result == BAD_VALUE then
        error("unsupported HTTP method: " .. number, 2)
    elseif result ~= 0 then
        fail(result, 2)
    end
end

function req.start_time()
    return tonumber(C.http_lua_ffi_start_time())
end

function req.is_internal()
    local result = C.http_lua_ffi_is_internal()
    if result < 0 then
        fail(result, 1)
    end
    return result == 1
end

-- Puts the arguments of a text into `fields`, `max` of them (0: all).
local give_args = exclusive(function()
    local args, pair, usual = ffi.new("script_args[1]"), ffi.new("http_lua_ffi_pair[1]"), ffi.new("char[?]", SIZE)
    return function(text, len, max, fields)
        local decoded = usual
        if len > SIZE then
            decoded = buffer.make(len)
        end
        local state = args[0]
        state.rest.data, state.rest.len = text, len
        state.count = 0
        state.max = 0
        local named = 0
        local result = C.script_ffi_args_next(state, decoded, pair)
        while result < 2 do
            if result == 0 then
                local name = text_of(pair[0].name.data, pair[0].name.len)
                local value = true
                if pair[0].value.data ~= nil then
                    value = text_of(pair[0].value.data, pair[0].value.len)
                end
                put_in(fields, name, value)
                named = named + 1
                if named == max then
                    break
                end
            end
            result = C.script_ffi_args_next(state, decoded, pair)
        end
        -- Nameless ones are not given, but they count in what there was.
        local is_cut = max > 0 and (state.count > max or (state.count == max and state.rest.data ~= nil))
        if is_cut then
            return fields, "truncated"
        end
        return fields
    end
end)

function req.get_uri_args(max, fields)
    local len = C.http_lua_ffi_uri_args(out)
    local text = out[0]
    if len < 0 then
        fail(len, 2)
    end
    if fields then
        require("table.clear")(fields)
    else
        fields = {}
    end
    if len == 0 then
        return fields
    end
    max = max and tonumber(cast("int", max)) or MAX
    return give_args(text, len, max < 0 and 0 or max, fields)
end

package.preload["ngx.req"] = function()
    return {
        version = ngx.config and ngx.config.ngx_lua_version,
        add_header = function(name, value)
            if name == nil then
                error("bad 'name' argument: string expected, got nil", 2)
            end
            if value == nil then
                error("bad 'value' argument: string or table expected, got nil", 2)
            end
            if type(value) == "table" and #value == 0 then
                error("bad 'value' argument: non-empty table expected", 2)
            end
            set_field(C.http_lua_ffi_request_field_set, name, value, 1, 2)
        end,
    }
end

-- ---- ngx.header, ngx.resp

local function get_response_field(_, name)
    if type(name) ~= "string" then
        name = as_text(name)
    end
    local len = C.http_lua_ffi_response_get(name, #name, out)
    local text = out[0]
    if len >= 0 then
        return (text_of(text, len))
    elseif len == NONE then
        return nil
    elseif len ~= SEVERAL then
        fail(len, 2)
    end
    local values, count, place = {}, 0, ffi.new("int[1]")
    repeat
        len = C.http_lua_ffi_response_next(name, #name, place, out)
        text = out[0]
        if len >= 0 then
            count = count + 1
            values[count] = text_of(text, len)
        end
    until len < 0
    return values
end

ngx.header = setmetatable({}, {
    __index = get_response_field,
    __newindex = function(_, name, value)
        set_field(C.http_lua_ffi_response_field_set, name, value, 0, 2)
    end,
})

ngx.resp = ngx.resp or {}

function ngx.resp.get_headers(max, is_raw)
    local count = C.http_lua_ffi_response_fields()
    if count < 0 then
        fail(count, 2)
    end
    return give_fields(count, C.http_lua_ffi_response_field, max, is_raw, MADE)
end

package.preload["ngx.resp"] = function()
    return {
        version = ngx.config and ngx.config.ngx_lua_version,
        add_header = function(name, value)
            if value == nil then
                error("invalid header value", 2)
            end
            if type(value) ~= "table" or #value > 0 then
                set_field(C.http_lua_ffi_response_field_set, name, value, 1, 2)
            end
        end,
        get_headers = ngx.resp.get_headers,
        set_status = function(status, reason)
            ngx.status = status
            if reason ~= nil then
                reason = as_text(reason)
                C.http_lua_ffi_reason_set(reason, #reason)
            end
        end,
        bypass_if_checks = function()
            local result = C.http_lua_ffi_bypass_checks()
            if result ~= 0 then
                fail(result, 2)
            end
        end,
    }
end

function properties.get.status()
    local result = C.http_lua_ffi_status()
    if result < 0 then
        fail(result, 2)
    end
    return result
end

function properties.set.status(status)
    local number = tonumber(status)
    if not number then
        error("bad status: number expected, got " .. type(status), 2)
    end
    local result = C.http_lua_ffi_status_set(number)
    if result ~= 0 then
        fail(result, 2)
    end
end

function properties.get.headers_sent()
    local result = C.http_lua_ffi_is_head_sent()
    if result < 0 then
        fail(result, 2)
    end
    return result == 1
end

function properties.get.is_subrequest()
    local result = C.http_lua_ffi_is_subrequest()
    if result < 0 then
        fail(result, 2)
    end
    return result == 1
end
