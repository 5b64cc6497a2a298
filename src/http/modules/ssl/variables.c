/* Variables of ngx_http_ssl_module. */
#include "http/connection.h"
#include "http/modules/ssl/ssl.h"
#include "http/request.h"
#include "http/variables.h"

#define PREFIX 4 /* bytes of "ssl_" */

static bool get_ssl(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env);

    return request->http != NULL &&
           tls_variable(request->http->conn, str_skip(variable->name, PREFIX), env->arena, out);
}

#define ROW(text)                                                                                  \
    {                                                                                              \
        .name = STR_INIT(text), .get = get_ssl, .flags = VARIABLE_CHANGEABLE                       \
    }

const struct variable ssl_variables[] = {
    ROW("ssl_protocol"),
    ROW("ssl_cipher"),
    ROW("ssl_ciphers"),
    ROW("ssl_curve"),
    ROW("ssl_curves"),
    ROW("ssl_sigalg"),
    ROW("ssl_sigalgs"),
    ROW("ssl_session_id"),
    ROW("ssl_session_reused"),
    {.name = STR_INIT("ssl_early_data"),
     .get = get_ssl,
     .flags = VARIABLE_CHANGEABLE | VARIABLE_VOLATILE},
    ROW("ssl_server_name"),
    ROW("ssl_alpn_protocol"),
    ROW("ssl_ech_status"),
    ROW("ssl_ech_outer_server_name"),
    ROW("ssl_handshake_time"),
    ROW("ssl_handshakd_time"),
    ROW("ssl_handshake_time_msec"),
    ROW("ssl_client_cert"),
    ROW("ssl_client_raw_cert"),
    ROW("ssl_client_escaped_cert"),
    ROW("ssl_client_s_dn"),
    ROW("ssl_client_i_dn"),
    ROW("ssl_client_s_dn_legacy"),
    ROW("ssl_client_i_dn_legacy"),
    ROW("ssl_client_serial"),
    ROW("ssl_client_fingerprint"),
    ROW("ssl_client_verify"),
    ROW("ssl_client_v_start"),
    ROW("ssl_client_v_end"),
    ROW("ssl_client_v_remain"),
    ROW("ssl_client_sigalg"),
    {.name = STR_INIT("")},
};
