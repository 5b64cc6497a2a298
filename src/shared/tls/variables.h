/* The variables of a connection that speaks TLS. */
#ifndef SHARED_TLS_VARIABLES_H
#define SHARED_TLS_VARIABLES_H

#include "conf/template.h"

#define TLS_VARIABLE(NAME, GET)                                                                    \
    {                                                                                              \
        .name = STR_INIT(NAME), .get = GET, .flags = VARIABLE_CHANGEABLE                           \
    }
/* All, each with this getter: it gives tls_variable of the name without "ssl_". */
#define TLS_VARIABLES(GET)                                                                         \
    TLS_VARIABLE("ssl_protocol", GET), TLS_VARIABLE("ssl_cipher", GET),                            \
        TLS_VARIABLE("ssl_ciphers", GET), TLS_VARIABLE("ssl_curve", GET),                          \
        TLS_VARIABLE("ssl_curves", GET), TLS_VARIABLE("ssl_sigalg", GET),                          \
        TLS_VARIABLE("ssl_sigalgs", GET), TLS_VARIABLE("ssl_session_id", GET),                     \
        TLS_VARIABLE("ssl_session_reused", GET),                                                   \
        {.name = STR_INIT("ssl_early_data"),                                                       \
         .get = GET,                                                                               \
         .flags = VARIABLE_CHANGEABLE | VARIABLE_VOLATILE},                                        \
        TLS_VARIABLE("ssl_server_name", GET), TLS_VARIABLE("ssl_alpn_protocol", GET),              \
        TLS_VARIABLE("ssl_ech_status", GET), TLS_VARIABLE("ssl_ech_outer_server_name", GET),       \
        TLS_VARIABLE("ssl_handshake_time", GET), TLS_VARIABLE("ssl_handshakd_time", GET),          \
        TLS_VARIABLE("ssl_handshake_time_msec", GET), TLS_VARIABLE("ssl_client_cert", GET),        \
        TLS_VARIABLE("ssl_client_raw_cert", GET), TLS_VARIABLE("ssl_client_escaped_cert", GET),    \
        TLS_VARIABLE("ssl_client_s_dn", GET), TLS_VARIABLE("ssl_client_i_dn", GET),                \
        TLS_VARIABLE("ssl_client_s_dn_legacy", GET), TLS_VARIABLE("ssl_client_i_dn_legacy", GET),  \
        TLS_VARIABLE("ssl_client_serial", GET), TLS_VARIABLE("ssl_client_fingerprint", GET),       \
        TLS_VARIABLE("ssl_client_verify", GET), TLS_VARIABLE("ssl_client_v_start", GET),           \
        TLS_VARIABLE("ssl_client_v_end", GET), TLS_VARIABLE("ssl_client_v_remain", GET),           \
        TLS_VARIABLE("ssl_client_sigalg", GET)

#endif
