-- ngx.ssl.session: sessions that scripts keep, by identifier.
local native = require "script.tls"

return {
    version = require("resty.core.base").version,
    get_session_id = native.session_id,
    get_serialized_session = native.serialized_session,
    set_serialized_session = native.set_serialized_session,
}
