-- ngx.ssl.proxysslcert: the certificate that a backend gets from us.
local ffi = require "ffi"
local pointer = require "portunus.pointer"

local C, str = ffi.C, ffi.string

ffi.cdef [[
int ngx_http_lua_ffi_proxy_ssl_clear_certs(void *r, char **err);
int ngx_http_lua_ffi_proxy_ssl_set_der_certificate(void *r, const char *data, size_t len, char **err);
int ngx_http_lua_ffi_proxy_ssl_set_der_private_key(void *r, const char *data, size_t len, char **err);
int ngx_http_lua_ffi_proxy_ssl_set_cert(void *r, void *cdata, char **err);
int ngx_http_lua_ffi_proxy_ssl_set_priv_key(void *r, void *cdata, char **err);
]]

local err = ffi.new("char *[1]")
local here = ffi.cast("void *", 1) -- stands for "this request", which the C side knows

local function done(code)
    if code ~= 0 then
        return nil, str(err[0])
    end
    return true
end

local cert = { version = require("resty.core.base").version }

function cert.clear_certs()
    return done(C.ngx_http_lua_ffi_proxy_ssl_clear_certs(here, err))
end

function cert.set_der_cert(data)
    return done(C.ngx_http_lua_ffi_proxy_ssl_set_der_certificate(here, data, #data, err))
end

function cert.set_der_priv_key(data)
    return done(C.ngx_http_lua_ffi_proxy_ssl_set_der_private_key(here, data, #data, err))
end

function cert.set_cert(chain)
    return done(C.ngx_http_lua_ffi_proxy_ssl_set_cert(here, pointer(chain), err))
end

function cert.set_priv_key(key)
    return done(C.ngx_http_lua_ffi_proxy_ssl_set_priv_key(here, pointer(key), err))
end

return cert
