-- ngx.proxyssl: what a connection to a backend has agreed on.
local ffi = require "ffi"

local C, str = ffi.C, ffi.string

ffi.cdef [[
int ngx_http_lua_ffi_proxy_ssl_get_tls1_version(void *r, char **err);
]]

local names = {
    [0x0300] = "SSLv3", [0x0301] = "TLSv1", [0x0302] = "TLSv1.1", [0x0303] = "TLSv1.2", [0x0304] = "TLSv1.3",
}
local err = ffi.new("char *[1]")
local here = ffi.cast("void *", 1)

local proxyssl = {
    version = require("resty.core.base").version,
    SSL3_VERSION = 0x0300, TLS1_VERSION = 0x0301, TLS1_1_VERSION = 0x0302, TLS1_2_VERSION = 0x0303, TLS1_3_VERSION = 0x0304,
}

function proxyssl.get_tls1_version()
    local version = C.ngx_http_lua_ffi_proxy_ssl_get_tls1_version(here, err)
    if version < 0 then
        return nil, str(err[0])
    end
    return version
end

function proxyssl.get_tls1_version_str()
    local version, reason = proxyssl.get_tls1_version()
    if not version then
        return nil, reason
    end
    local name = names[version]
    if not name then
        return nil, "unknown version"
    end
    return name
end

return proxyssl
