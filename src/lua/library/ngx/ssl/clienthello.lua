-- ngx.ssl.clienthello: what a client says first, and which protocols it may speak.
local native = require "script.tls"

local versions = { [0x0002] = "SSLv2", [0x0300] = "SSLv3", [0x0301] = "TLSv1", [0x0302] = "TLSv1.1", [0x0303] = "TLSv1.2", [0x0304] = "TLSv1.3" }
local SUPPORTED_VERSIONS = 43 -- RFC 8446, 4.2.1

local hello = {
    version = require("resty.core.base").version,
    get_client_hello_server_name = native.hello_name,
    get_client_hello_ext = native.hello_extension,
    get_client_hello_ext_present = native.hello_extensions,
    get_client_hello_ciphers = native.hello_ciphers,
    set_protocols = native.set_protocols,
}

function hello.get_supported_versions()
    local extension, reason = native.hello_extension(SUPPORTED_VERSIONS)
    if not extension then
        return nil, reason
    end
    local len = extension:byte(1) or 0
    if len + 1 ~= #extension or len % 2 ~= 0 then
        return nil, "bad SSL Client Hello Extension"
    end
    local list = {}
    for at = 2, len, 2 do
        local name = versions[extension:byte(at) * 256 + extension:byte(at + 1)]
        if name then
            list[#list + 1] = name
        end
    end
    return list
end

return hello
