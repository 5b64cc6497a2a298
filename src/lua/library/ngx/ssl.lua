-- ngx.ssl: certificates, keys and what a connection's TLS has agreed on.
local base = require "resty.core.base"
local ffi = require "ffi"
local native = require "script.tls"
local pointer = require "portunus.pointer"

local C, gc, str = ffi.C, ffi.gc, ffi.string
local floor = math.floor

ffi.cdef [[
int ngx_http_lua_ffi_cert_pem_to_der(const unsigned char *pem, size_t pem_len, unsigned char *der, char **err);
int ngx_http_lua_ffi_priv_key_pem_to_der(const unsigned char *pem, size_t pem_len, const unsigned char *passphrase,
    unsigned char *der, char **err);
int ngx_http_lua_ffi_ssl_set_der_certificate(void *r, const char *data, size_t len, char **err);
int ngx_http_lua_ffi_ssl_set_der_private_key(void *r, const char *data, size_t len, char **err);
int ngx_http_lua_ffi_ssl_clear_certs(void *r, char **err);
void *ngx_http_lua_ffi_parse_pem_cert(const unsigned char *pem, size_t pem_len, char **err);
void *ngx_http_lua_ffi_parse_der_cert(const char *data, size_t len, char **err);
void *ngx_http_lua_ffi_parse_pem_priv_key(const unsigned char *pem, size_t pem_len, char **err);
void *ngx_http_lua_ffi_parse_der_priv_key(const char *data, size_t len, char **err);
void ngx_http_lua_ffi_free_cert(void *cdata);
void ngx_http_lua_ffi_free_priv_key(void *cdata);
int ngx_http_lua_ffi_set_cert(void *r, void *cdata, char **err);
int ngx_http_lua_ffi_set_priv_key(void *r, void *cdata, char **err);
int ngx_http_lua_ffi_ssl_verify_client(void *r, void *client_certs, void *trusted_certs, int depth, char **err);
int ngx_http_lua_ffi_ssl_client_random(void *r, unsigned char *out, size_t *outlen, char **err);
int ngx_http_lua_ffi_ssl_server_random(void *r, unsigned char *out, size_t *outlen, char **err);
int ngx_http_lua_ffi_ssl_session_master_key(void *r, unsigned char *out, size_t *outlen, char **err);
int ngx_http_lua_ffi_req_shared_ssl_ciphers(void *r, uint16_t *ciphers, uint16_t *nciphers, int filter_grease, char **err);
void *ngx_http_lua_ffi_get_req_ssl_pointer(void *r);
void *ngx_http_lua_ffi_get_upstream_ssl_pointer(void *r);
int ngx_http_lua_ffi_ssl_get_tls1_version(void *r, char **err);
struct script_tls_export {
    unsigned char *out; size_t size;
    const char *label; size_t label_size;
    const unsigned char *context; size_t context_size;
    int is_early;
};
int script_tls_export(const struct script_tls_export *wanted, char **error);
]]

-- Versions as OpenSSL numbers them.
local versions = {
    SSL3_VERSION = 0x0300, TLS1_VERSION = 0x0301, TLS1_1_VERSION = 0x0302, TLS1_2_VERSION = 0x0303, TLS1_3_VERSION = 0x0304,
}
local version_names = {
    [0x0300] = "SSLv3", [0x0301] = "TLSv1", [0x0302] = "TLSv1.1", [0x0303] = "TLSv1.2", [0x0304] = "TLSv1.3",
}

local err = ffi.new("char *[1]")
local size = ffi.new("size_t[1]")

-- Stands for the request, which the C side knows.
local some_request = ffi.cast("void *", 1)

local function here()
    if not base.get_request() then
        error("no request found", 3)
    end
    return some_request
end

local function failed()
    return nil, str(err[0])
end

-- true, or nil and a reason, of what gave 0 when it was well.
local function done(code)
    if code ~= 0 then
        return failed()
    end
    return true
end

-- A pointer that frees what it points to.
local function owned(made, free)
    if made == nil then
        return failed()
    end
    return gc(made, free)
end

local ssl = {
    version = base.version,
    server_name = native.server_name,
    server_port = native.server_port,
    raw_server_addr = native.raw_server_addr,
    raw_client_addr = native.raw_client_addr,
}
for name, number in pairs(versions) do
    ssl[name] = number
end

function ssl.clear_certs()
    return done(C.ngx_http_lua_ffi_ssl_clear_certs(here(), err))
end

function ssl.set_der_cert(data)
    return done(C.ngx_http_lua_ffi_ssl_set_der_certificate(here(), data, #data, err))
end

function ssl.set_der_priv_key(data)
    return done(C.ngx_http_lua_ffi_ssl_set_der_private_key(here(), data, #data, err))
end

function ssl.set_cert(chain)
    return done(C.ngx_http_lua_ffi_set_cert(here(), pointer(chain), err))
end

function ssl.set_priv_key(key)
    return done(C.ngx_http_lua_ffi_set_priv_key(here(), pointer(key), err))
end

function ssl.cert_pem_to_der(pem)
    local out = ffi.new("unsigned char[?]", #pem)
    local len = C.ngx_http_lua_ffi_cert_pem_to_der(pem, #pem, out, err)
    if len <= 0 then
        return failed()
    end
    return (str(out, len))
end

function ssl.priv_key_pem_to_der(pem, passphrase)
    local out = ffi.new("unsigned char[?]", #pem)
    local len = C.ngx_http_lua_ffi_priv_key_pem_to_der(pem, #pem, passphrase, out, err)
    if len <= 0 then
        return failed()
    end
    return (str(out, len))
end

function ssl.parse_pem_cert(pem)
    return owned(C.ngx_http_lua_ffi_parse_pem_cert(pem, #pem, err), C.ngx_http_lua_ffi_free_cert)
end

function ssl.parse_der_cert(der)
    return owned(C.ngx_http_lua_ffi_parse_der_cert(der, #der, err), C.ngx_http_lua_ffi_free_cert)
end

function ssl.parse_pem_priv_key(pem)
    return owned(C.ngx_http_lua_ffi_parse_pem_priv_key(pem, #pem, err), C.ngx_http_lua_ffi_free_priv_key)
end

function ssl.parse_der_priv_key(der)
    return owned(C.ngx_http_lua_ffi_parse_der_priv_key(der, #der, err), C.ngx_http_lua_ffi_free_priv_key)
end

function ssl.verify_client(client_certs, depth, trusted_certs)
    return done(C.ngx_http_lua_ffi_ssl_verify_client(here(), pointer(client_certs), pointer(trusted_certs), depth or -1, err))
end

-- A secret of the connection; with a length of 0: how long it is.
local function secret(get, len)
    len = floor(len)
    local out = ffi.new("unsigned char[?]", len)
    local request = here() -- a finalizer that runs here may change size
    size[0] = len
    if get(request, out, size, err) ~= 0 then
        return failed()
    end
    if len == 0 then
        return tonumber(size[0])
    end
    return (str(out, size[0]))
end

function ssl.get_client_random(len)
    return secret(C.ngx_http_lua_ffi_ssl_client_random, len or 32)
end

function ssl.get_server_random(len)
    return secret(C.ngx_http_lua_ffi_ssl_server_random, len or 32)
end

function ssl.get_session_master_key(len)
    return secret(C.ngx_http_lua_ffi_ssl_session_master_key, len or 48)
end

local function export(len, label, context, is_early)
    local out = ffi.new("unsigned char[?]", len)
    local wanted = ffi.new("struct script_tls_export", out, len, label, #label, context, context and #context or 0, is_early)
    if C.script_tls_export(wanted, err) ~= 0 then
        return failed()
    end
    return (str(out, len))
end

function ssl.export_keying_material(len, label, context)
    return export(len, label, context, 0)
end

function ssl.export_keying_material_early(len, label, context)
    return export(len, label, context, 1)
end

function ssl.get_req_shared_ssl_ciphers(filter_grease)
    local most = 256
    local ids = ffi.new("uint16_t[?]", most)
    local count = ffi.new("uint16_t[1]", most)
    if C.ngx_http_lua_ffi_req_shared_ssl_ciphers(here(), ids, count, filter_grease == false and 0 or 1, err) ~= 0 then
        return failed()
    end
    local list = {}
    for i = 0, count[0] - 1 do
        list[i + 1] = ids[i]
    end
    return list
end

function ssl.get_req_ssl_pointer()
    local made = C.ngx_http_lua_ffi_get_req_ssl_pointer(here())
    if made == nil then
        return nil, "no ssl object"
    end
    return made
end

function ssl.get_upstream_ssl_pointer()
    local made = C.ngx_http_lua_ffi_get_upstream_ssl_pointer(here())
    if made == nil then
        return nil, "no ssl object"
    end
    return made
end

function ssl.ssl_session_reused(of)
    return native.session_reused(ffi.new("void *[1]", pointer(of)))
end

function ssl.get_tls1_version()
    local version = C.ngx_http_lua_ffi_ssl_get_tls1_version(here(), err)
    if version < 0 then
        return failed()
    end
    return version
end

function ssl.get_tls1_version_str()
    local version, reason = ssl.get_tls1_version()
    if not version then
        return nil, reason
    end
    local name = version_names[version]
    if not name then
        return nil, "unknown version"
    end
    return name
end

return ssl
