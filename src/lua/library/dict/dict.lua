-- Methods of shared dictionaries. Takes the dictionaries by name, gives the table ngx.shared.
local dicts = ...
local ffi = require "ffi"
local new_tab = require "table.new"
local C = ffi.C
local string_of = ffi.string
local type, tostring, tonumber, error, select, setmetatable = type, tostring, tonumber, error, select, setmetatable

ffi.cdef [[
struct script_dict_value {
    double number, init, seconds, len;
    const char *data;
    char *room;
    uint32_t room_size;
    int32_t flags;
    int type, is_stale, is_forcible, has_entry;
};
int script_ffi_dict_get(void *dict, const char *key, size_t key_len, int wants_stale, struct script_dict_value *out);
int script_ffi_dict_set(void *dict, const char *key, size_t key_len, int how, struct script_dict_value *value);
int script_ffi_dict_incr(void *dict, const char *key, size_t key_len, int has_init, struct script_dict_value *value);
int script_ffi_dict_ttl(void *dict, const char *key, size_t key_len, struct script_dict_value *out);
int script_ffi_dict_expire(void *dict, const char *key, size_t key_len, double seconds);
int script_ffi_dict_push(void *dict, const char *key, size_t key_len, int is_left, struct script_dict_value *value);
int script_ffi_dict_pop(void *dict, const char *key, size_t key_len, int is_left, struct script_dict_value *out);
int script_ffi_dict_length(void *dict, const char *key, size_t key_len, struct script_dict_value *out);
void script_ffi_dict_flush_all(void *dict);
double script_ffi_dict_flush_expired(void *dict, double most);
void script_ffi_dict_keys(void *dict, double most, struct script_dict_value *out);
double script_ffi_dict_capacity(void *dict);
double script_ffi_dict_free_space(void *dict);
]]

local NONE, BOOLEAN, NUMBER, STRING, LIST = 0, 1, 2, 3, 4         -- enum dict_type
local SET, ADD, REPLACE, SAFE_SET, SAFE_ADD = 0, 1, 2, 3, 4       -- enum dict_set
local OK, NOT_FOUND = 0, 1                                        -- enum dict_result
local REASONS = { "not found", "exists", "no memory", "not a number", "value not a list" }
local KEY_MOST = 65535
local KEYS_USUAL = 1024 -- that get_keys gives

local ROOM = 4096 -- bytes

local function new_value()
    local room = ffi.new("char[?]", ROOM)
    return ffi.new("struct script_dict_value", { room = room, room_size = ROOM }), room
end

-- A value and its room belong to who has taken them until they are given back. Finalizers (__gc) run wherever something is allocated, and
-- where compiled code is left: one that uses a dictionary meanwhile makes a value for itself. One that an error loses is made again.
local spare, spare_room = new_value()
local dict_methods = {}
dict_methods.__index = dict_methods -- scripts walk over the methods by any dictionary's __index

-- The methods of single values call few functions where their arguments are what they should be: LuaJIT counts the calls of all functions and
-- the iterations of all loops in 64 counters, and a loop of a script is a trace of its own only if it becomes hot before what it calls.

local function fail_zone()
    error("bad \"zone\" argument", 3)
end

-- A key that is no string of a usual length as a string; nil and a reason when it is no key.
local function key_of(key)
    if type(key) ~= "string" then
        if key == nil then
            return nil, "nil key"
        end
        key = tostring(key)
    end
    local len = #key
    if len == 0 then
        return nil, "empty key"
    end
    if len > KEY_MOST then
        return nil, "key too long"
    end
    return key
end

-- A string that was longer than the room is asked for again, with as much room as it needs. Gives what `get` returns, the string (nil:
-- there is no string any more), its flags and whether it is stale.
local function get_long(value, room, get, dict, key, how)
    local result, space
    repeat
        local size = value.len
        space = ffi.new("char[?]", size)
        value.room, value.room_size = space, size
        result = get(dict, key, #key, how, value)
        value.room, value.room_size = room, ROOM
    until value.type ~= STRING or value.len <= size
    local flags, is_stale = value.flags, value.is_stale
    if value.type == STRING then
        return result, string_of(space, value.len), flags, is_stale
    end
    return result, nil, flags, is_stale
end

function dict_methods.get(zone, key)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    local kind = C.script_ffi_dict_get(dict, key, #key, 0, value)
    local given, flags = nil, value.flags
    if kind == STRING then
        if value.len <= ROOM then
            given = string_of(room, value.len)
        else
            kind, given, flags = get_long(value, room, C.script_ffi_dict_get, dict, key, 0)
        end
    end
    if kind == NUMBER then
        given = value.number
    elseif kind == BOOLEAN then
        given = value.number ~= 0
    end
    spare, spare_room = value, room
    if kind == NONE then
        return nil
    elseif kind == LIST then
        return nil, "value is a list"
    end
    if flags ~= 0 then
        return given, flags
    end
    return given
end

function dict_methods.get_stale(zone, key)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    local kind = C.script_ffi_dict_get(dict, key, #key, 1, value)
    local given, flags, is_stale = nil, value.flags, value.is_stale
    if kind == STRING then
        if value.len <= ROOM then
            given = string_of(room, value.len)
        else
            kind, given, flags, is_stale = get_long(value, room, C.script_ffi_dict_get, dict, key, 1)
        end
    end
    if kind == NUMBER then
        given = value.number
    elseif kind == BOOLEAN then
        given = value.number ~= 0
    end
    spare, spare_room = value, room
    if kind == NONE then
        return nil
    elseif kind == LIST then
        return nil, "value is a list"
    end
    if flags == 0 then
        flags = nil
    end
    return given, flags, is_stale ~= 0
end

local function store(zone, how, key, given, seconds, flags)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    if not seconds then
        seconds = 0
    elseif type(seconds) ~= "number" or seconds < 0 then
        error("bad \"exptime\" argument", 2) -- who calls by a tail call is no level
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    flags = flags or 0
    local value, room = spare, spare_room
    local kind = type(given)
    spare = nil
    if not value then
        value, room = new_value()
    end
    if kind == "string" then
        value.type = STRING
        value.data = given
        value.len = #given
    elseif kind == "number" then
        value.type = NUMBER
        value.number = given
    elseif kind == "boolean" then
        value.type = BOOLEAN
        value.number = given and 1 or 0
    elseif kind == "nil" then
        if how == ADD or how == REPLACE or how == SAFE_ADD then
            spare, spare_room = value, room
            return false, "attempt to add or replace nil values", false
        end
        value.type = NONE
    else
        spare, spare_room = value, room
        return nil, "bad value type"
    end
    value.seconds = seconds
    value.flags = flags
    local result = C.script_ffi_dict_set(dict, key, #key, how, value)
    local is_forcible = value.is_forcible ~= 0
    spare, spare_room = value, room
    if result == OK then
        return true, nil, is_forcible
    end
    return false, REASONS[result], is_forcible
end

function dict_methods.set(zone, key, given, seconds, flags)
    return store(zone, SET, key, given, seconds, flags)
end

function dict_methods.add(zone, key, given, seconds, flags)
    return store(zone, ADD, key, given, seconds, flags)
end

function dict_methods.replace(zone, key, given, seconds, flags)
    return store(zone, REPLACE, key, given, seconds, flags)
end

function dict_methods.safe_set(zone, key, given, seconds, flags)
    return store(zone, SAFE_SET, key, given, seconds, flags)
end

function dict_methods.safe_add(zone, key, given, seconds, flags)
    return store(zone, SAFE_ADD, key, given, seconds, flags)
end

function dict_methods.delete(zone, key)
    return store(zone, SET, key)
end

function dict_methods.incr(zone, key, step, init, init_ttl)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    if type(step) ~= "number" then
        local number = tonumber(step)
        if not number then
            error("cannot convert 'nil' to 'double'", 2)
        end
        step = number
    end
    init = init or nil -- false is none
    if init then
        local number = tonumber(init)
        if not number then
            error("bad init arg: number expected, got " .. type(init), 2)
        end
        init = number
    end
    if init_ttl ~= nil then
        local number = tonumber(init_ttl)
        if not number then
            error("bad init_ttl arg: number expected, got " .. type(init_ttl), 2)
        end
        if number < 0 then
            error("bad \"init_ttl\" argument", 2)
        end
        if init == nil then
            error("must provide \"init\" when providing \"init_ttl\"", 2)
        end
        init_ttl = number
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    value.number = step
    value.init = init or 0
    value.seconds = init_ttl or 0
    local result = C.script_ffi_dict_incr(dict, key, #key, init and 1 or 0, value)
    local sum, is_forcible = value.number, value.is_forcible ~= 0
    spare, spare_room = value, room
    if result ~= OK then
        return nil, REASONS[result]
    end
    if init == nil then
        return sum
    end
    return sum, nil, is_forcible
end

function dict_methods.ttl(zone, key)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    local result = C.script_ffi_dict_ttl(dict, key, #key, value)
    local seconds = value.seconds
    spare, spare_room = value, room
    if result == NOT_FOUND then
        return nil, "not found"
    end
    return seconds
end

function dict_methods.expire(zone, key, seconds)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    seconds = tonumber(seconds)
    if not seconds then
        error("bad \"exptime\" argument", 2)
    end
    if type(key) ~= "string" or #key == 0 or #key > KEY_MOST then
        local name, err = key_of(key)
        if not name then
            return nil, err
        end
        key = name
    end
    if C.script_ffi_dict_expire(dict, key, #key, seconds) == NOT_FOUND then
        return nil, "not found"
    end
    return true
end

-- ---- lists

-- A key of a list, as the C functions of nginx take it.
local function list_key_of(key)
    local kind = type(key)
    if kind ~= "nil" and kind ~= "string" and kind ~= "number" then
        error("bad argument #2 to '?' (string expected, got " .. kind .. ")", 3)
    end
    return key_of(key)
end

-- The string or number goes to C. False: it is of another type.
local function value_in(value, given)
    local kind = type(given)
    if kind == "string" then
        value.type = STRING
        value.data = given
        value.len = #given
    elseif kind == "number" then
        value.type = NUMBER
        value.number = given
    else
        return false
    end
    return true
end

local function push(is_left, ...)
    if select("#", ...) ~= 3 then
        error("expecting 3 arguments, but only seen " .. select("#", ...), 2)
    end
    local zone, key, given = ...
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    local name, err = list_key_of(key)
    if not name then
        return nil, err
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    if not value_in(value, given) then
        spare, spare_room = value, room
        return nil, "bad value type"
    end
    local result = C.script_ffi_dict_push(dict, name, #name, is_left, value)
    local length, has_entry = value.number, value.has_entry ~= 0
    spare, spare_room = value, room
    if result ~= OK then
        if not has_entry and REASONS[result] == "no memory" then
            return false, "no memory" -- the key itself had no room
        end
        return nil, REASONS[result]
    end
    return length
end

function dict_methods.lpush(...)
    return push(1, ...)
end

function dict_methods.rpush(...)
    return push(0, ...)
end

local function pop(is_left, ...)
    if select("#", ...) ~= 2 then
        error("expecting 2 arguments, but only seen " .. select("#", ...), 2)
    end
    local zone, key = ...
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    local name, err = list_key_of(key)
    if not name then
        return nil, err
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    local result = C.script_ffi_dict_pop(dict, name, #name, is_left, value)
    local given
    if result == OK and value.type == STRING then
        if value.len <= ROOM then
            given = string_of(room, value.len)
        else
            result, given = get_long(value, room, C.script_ffi_dict_pop, dict, name, is_left)
        end
    end
    if given == nil then
        given = value.number
    end
    spare, spare_room = value, room
    if result == NOT_FOUND then
        return nil
    elseif result ~= OK then
        return nil, REASONS[result]
    end
    return given
end

function dict_methods.lpop(...)
    return pop(1, ...)
end

function dict_methods.rpop(...)
    return pop(0, ...)
end

function dict_methods.llen(...)
    if select("#", ...) ~= 2 then
        error("expecting 2 arguments, but only seen " .. select("#", ...), 2)
    end
    local zone, key = ...
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    local name, err = list_key_of(key)
    if not name then
        return nil, err
    end
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    local result = C.script_ffi_dict_length(dict, name, #name, value)
    local length = value.number
    spare, spare_room = value, room
    if result ~= OK then
        return nil, REASONS[result]
    end
    return length
end

-- ---- the whole dictionary

function dict_methods.flush_all(zone)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    C.script_ffi_dict_flush_all(dict)
end

-- The dictionary and the number of those functions that may be given one.
local function one_number(usual, ...)
    local count = select("#", ...)
    if count ~= 1 and count ~= 2 then
        error("expecting 1 or 2 argument(s), but saw " .. count, 3)
    end
    local zone, most = ...
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        error("bad user data for the ngx_shm_zone_t pointer", 3)
    end
    if count == 1 then
        return dict, usual
    end
    local number = tonumber(most)
    if not number then
        error("bad argument #2 to '?' (number expected, got " .. type(most) .. ")", 3)
    end
    return dict, tonumber(ffi.cast("int", number))
end

function dict_methods.flush_expired(...)
    local dict, most = one_number(0, ...)
    return C.script_ffi_dict_flush_expired(dict, most)
end

function dict_methods.get_keys(...)
    local dict, most = one_number(KEYS_USUAL, ...)
    local value, room = spare, spare_room
    spare = nil
    if not value then
        value, room = new_value()
    end
    C.script_ffi_dict_keys(dict, most, value)
    local text, _
    if value.len <= ROOM then
        text = string_of(room, value.len)
    else
        _, text = get_long(value, room, function(_, _, _, _, out)
            C.script_ffi_dict_keys(dict, most, out)
        end, dict, "", 0)
    end
    spare, spare_room = value, room
    local keys, count = new_tab(32, 0), 0
    local at = ffi.cast("const char *", text)
    local last = at + #text
    while at < last do
        local len = ffi.cast("const uint16_t *", at)[0]
        count = count + 1
        keys[count] = string_of(at + 2, len)
        at = at + 2 + len
    end
    return keys
end

function dict_methods.capacity(zone)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    return C.script_ffi_dict_capacity(dict)
end

function dict_methods.free_space(zone)
    local dict = type(zone) == "table" and zone[1]
    if type(dict) ~= "cdata" then
        fail_zone()
    end
    return C.script_ffi_dict_free_space(dict)
end

local shared = {}
for name, dict in pairs(dicts) do
    -- A pointer of FFI: code that is given lightuserdata is not compiled.
    shared[name] = setmetatable({ ffi.cast("void *", dict) }, dict_methods)
end
return shared
