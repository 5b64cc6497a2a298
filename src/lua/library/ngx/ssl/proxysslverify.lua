-- ngx.ssl.proxysslverify: whether a backend's certificate is good.
local ffi = require "ffi"

local C, str = ffi.C, ffi.string

ffi.cdef [[
int ngx_http_lua_ffi_proxy_ssl_get_verify_result(void *r, char **err);
int ngx_http_lua_ffi_proxy_ssl_set_verify_result(void *r, int verify_result, char **err);
void *ngx_http_lua_ffi_proxy_ssl_get_verify_cert(void *r, char **err);
void ngx_http_lua_ffi_proxy_ssl_free_verify_cert(void *cdata);
]]

local err = ffi.new("char *[1]")
local here = ffi.cast("void *", 1)

local verify = { version = require("resty.core.base").version }

function verify.get_verify_result()
    local result = C.ngx_http_lua_ffi_proxy_ssl_get_verify_result(here, err)
    if result < 0 then
        return nil, str(err[0])
    end
    return result
end

function verify.set_verify_result(result)
    if C.ngx_http_lua_ffi_proxy_ssl_set_verify_result(here, result, err) ~= 0 then
        return nil, str(err[0])
    end
    return true
end

function verify.get_verify_cert()
    local chain = C.ngx_http_lua_ffi_proxy_ssl_get_verify_cert(here, err)
    if chain == nil then
        return nil, str(err[0])
    end
    return ffi.gc(chain, C.ngx_http_lua_ffi_proxy_ssl_free_verify_cert)
end

return verify
