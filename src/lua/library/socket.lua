-- Functions of sockets that take and give objects of OpenSSL: scripts see them as cdata.
local ffi = require "ffi"
local pointer = require "portunus.pointer"

local cast, gc = ffi.cast, ffi.gc
local type, select, error = type, select, error
local C = ffi.C

ffi.cdef[[
void script_ffi_session_free(void *session);
]]

-- What C gave: light userdata, or nil and a reason.
local function pointer_of(value, reason)
    if value == nil then
        return nil, reason
    end
    return cast("void *", value)
end

-- methods: the table of functions. given: their parts in C. is_cdata: sessions are cdata (http), else userdata (stream).
local function add(methods, given, is_cdata)
    local function session_of(session, reason)
        if session == nil then
            return nil, reason
        end
        if is_cdata and type(session) == "userdata" then
            return gc(cast("void *", session), C.script_ffi_session_free)
        end
        return session
    end

    function methods.sslhandshake(self, session, name, verify, status, ...)
        local count = select("#", ...)
        if count > 0 then
            error("ngx.socket sslhandshake: expecting 1 ~ 5 arguments (including the object), but seen " .. 5 + count, 2)
        end
        if type(session) == "cdata" then
            session = pointer(session)
        end
        return session_of(given.handshake(self, session, name, verify, status))
    end

    function methods.getsslsession(self)
        return session_of(given.session(self))
    end

    function methods.getsslpointer(self)
        return pointer_of(given.pointer(self))
    end

    function methods.getsslctx(self)
        return pointer_of(given.context(self))
    end

    function methods.setclientcert(self, chain, key)
        chain, key = chain or nil, key or nil
        if chain ~= nil or key ~= nil then
            if chain == nil or key == nil then
                return nil, "client certificate must be supplied with corresponding private key"
            end
            if type(chain) ~= "cdata" then
                return nil, "bad cert arg: cdata expected, got " .. type(chain)
            end
            if type(key) ~= "cdata" then
                return nil, "bad pkey arg: cdata expected, got " .. type(key)
            end
        end
        return given.certificate(self, pointer(chain), pointer(key), chain, key)
    end

    function methods.settrustedstore(self, store)
        if store ~= nil and type(store) ~= "cdata" then
            return nil, "bad store arg: cdata expected, got " .. type(store)
        end
        return given.store(self, pointer(store))
    end
end

jit.off(add) -- it runs once for each kind of socket, and functions that make functions are not compiled
return add
