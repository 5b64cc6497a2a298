-- ngx.ocsp: is a certificate good still? Asked, judged, and told to clients.
local native = require "script.tls"

return {
    version = require("resty.core.base").version,
    get_ocsp_responder_from_der_chain = native.ocsp_responder,
    create_ocsp_request = native.ocsp_request,
    validate_ocsp_response = native.ocsp_validate,
    set_ocsp_status_resp = native.ocsp_set,
}
