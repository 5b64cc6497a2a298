/* The variables of a connection with TLS. */
#ifndef SHARED_TLS_VARIABLES_H
#define SHARED_TLS_VARIABLES_H

#include "conf/template.h"

#define TLS_VARIABLE(NAME, GET, WORDS)                                                             \
    {                                                                                              \
        .name = STR_INIT(NAME), .doc = WORDS, .get = GET, .flags = VARIABLE_CHANGEABLE             \
    }
/* All of them, with this getter, which gives tls_variable of the name without "ssl_". */
#define TLS_VARIABLES(GET)                                                                         \
    TLS_VARIABLE("ssl_protocol", GET, "TLS version of the connection."),                           \
        TLS_VARIABLE("ssl_cipher", GET, "Cipher of the connection."),                              \
        TLS_VARIABLE("ssl_ciphers", GET, "Ciphers that the client offered."),                      \
        TLS_VARIABLE("ssl_curve", GET, "Group of the key exchange."),                              \
        TLS_VARIABLE("ssl_curves", GET, "Groups that the client offered."),                        \
        TLS_VARIABLE("ssl_sigalg", GET, "Signature algorithm of the server certificate."),         \
        TLS_VARIABLE("ssl_sigalgs", GET, "Signature algorithms that the client offered."),         \
        TLS_VARIABLE("ssl_session_id", GET, "Session ID, in hexadecimal."),                        \
        TLS_VARIABLE("ssl_session_reused", GET, "`r` if the session was resumed, otherwise `.`."), \
        {.name = STR_INIT("ssl_early_data"),                                                       \
         .doc = "`1` while TLS 1.3 early data is used and the handshake is not complete.",         \
         .get = GET,                                                                               \
         .flags = VARIABLE_CHANGEABLE | VARIABLE_VOLATILE},                                        \
        TLS_VARIABLE("ssl_server_name", GET, "Server name that the client requested (SNI)."),      \
        TLS_VARIABLE("ssl_alpn_protocol", GET, "Protocol that ALPN selected."),                    \
        TLS_VARIABLE("ssl_ech_status", GET, "Result of Encrypted Client Hello (ECH)."),            \
        TLS_VARIABLE("ssl_ech_outer_server_name", GET,                                             \
                     "Server name in the outer ClientHello of ECH."),                              \
        TLS_VARIABLE("ssl_handshake_time", GET,                                                    \
                     "Duration of the handshake, in seconds with milliseconds."),                  \
        TLS_VARIABLE("ssl_handshakd_time", GET, "Old spelling of `$ssl_handshake_time`."),         \
        TLS_VARIABLE("ssl_handshake_time_msec", GET,                                               \
                     "Duration of the handshake in milliseconds."),                                \
        TLS_VARIABLE("ssl_client_cert", GET,                                                       \
                     "Client certificate in PEM; all lines but the first begin with a tab."),      \
        TLS_VARIABLE("ssl_client_raw_cert", GET, "Client certificate in PEM."),                    \
        TLS_VARIABLE("ssl_client_escaped_cert", GET,                                               \
                     "Client certificate in PEM, escaped for URLs."),                              \
        TLS_VARIABLE("ssl_client_s_dn", GET,                                                       \
                     "Subject of the client certificate, in RFC 2253 format."),                    \
        TLS_VARIABLE("ssl_client_i_dn", GET,                                                       \
                     "Issuer of the client certificate, in RFC 2253 format."),                     \
        TLS_VARIABLE("ssl_client_s_dn_legacy", GET,                                                \
                     "Subject of the client certificate, in the older format with slashes."),      \
        TLS_VARIABLE("ssl_client_i_dn_legacy", GET,                                                \
                     "Issuer of the client certificate, in the older format with slashes."),       \
        TLS_VARIABLE("ssl_client_serial", GET, "Serial number of the client certificate."),        \
        TLS_VARIABLE("ssl_client_fingerprint", GET,                                                \
                     "SHA-1 fingerprint of the client certificate."),                              \
        TLS_VARIABLE("ssl_client_verify", GET,                                                     \
                     "Result of the client certificate's verification: "                           \
                     "SUCCESS, FAILED:reason or NONE."),                                           \
        TLS_VARIABLE("ssl_client_v_start", GET,                                                    \
                     "Time from which the client certificate is valid."),                          \
        TLS_VARIABLE("ssl_client_v_end", GET, "Time at which the client certificate expires."),    \
        TLS_VARIABLE("ssl_client_v_remain", GET, "Days until the client certificate expires."),    \
        TLS_VARIABLE("ssl_client_sigalg", GET, "Signature algorithm of the client certificate.")

#endif
