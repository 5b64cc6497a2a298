-- What libraries share that call C by FFI: buffers, tables, the request, return codes.
local ffi = require "ffi"
local ngx = ngx
local C = ffi.C
local error = error

ffi.cdef [[ void *script_ffi_request(void); ]]

local base = {
    version = "0.1.32",
    FFI_OK = 0,
    FFI_ERROR = -1,
    FFI_AGAIN = -2,
    FFI_BUSY = -3,
    FFI_DONE = -4,
    FFI_DECLINED = -5,
    FFI_ABORT = -6,
    FFI_NO_REQ_CTX = -100,
    FFI_BAD_CONTEXT = -101,
    new_tab = require "table.new",
    clear_tab = require "table.clear",
}

-- Throws unless the subsystem (http, stream) is one of these.
function base.allows_subsystem(...)
    local subsystem = ngx.config.subsystem
    for i = 1, select("#", ...) do
        if select(i, ...) == subsystem then
            return
        end
    end
    error("unsupported subsystem: " .. subsystem, 2)
end

local buffer_size = 4096
local buffer
local size_place = ffi.new("size_t[1]")
local message_place = ffi.new("char *[1]")

-- A buffer that all share: what is in it is to be taken at once. With `must_alloc` a new one.
function base.get_string_buf(size, must_alloc)
    if size > buffer_size or must_alloc then
        return ffi.new("unsigned char[?]", size)
    end
    buffer = buffer or ffi.new("unsigned char[?]", buffer_size)
    return buffer
end

function base.get_string_buf_size()
    return buffer_size
end

function base.set_string_buf_size(size)
    if size <= 0 then
        return
    end
    buffer = nil
    buffer_size = math.ceil(size)
end

function base.get_size_ptr()
    return size_place
end

function base.get_errmsg_ptr()
    return message_place
end

-- What works is done for, as a pointer; nil where there is none. Only good for being compared.
function base.get_request()
    local request = C.script_ffi_request()
    if request == nil then
        return nil
    end
    return request
end


-- A reference to a value in a table, as luaL_ref makes them.
function base.ref_in_table(table, value)
    if value == nil then
        return -1
    end
    local free = table[0]
    if free and free ~= 0 then
        table[0] = table[free]
    else
        free = #table + 1
    end
    table[free] = value
    return free
end

return base
