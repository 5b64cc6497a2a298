/* Scripts in handshakes with backends: proxy_ssl_certificate_by_lua*, proxy_ssl_verify_by_lua*. */
#ifndef LUA_TLS_BACKEND_H
#define LUA_TLS_BACKEND_H

#include "lua/tls/tls.h"

/* What a place says of them. */
struct script_backend_codes {
    struct script_code *certificate, *verify; /* or NULL */
    bool skips_default;                       /* lua_upstream_skip_openssl_default_verify */
};

/* What a request or a session has of its handshake with a backend. All zero before the first. */
struct script_backend {
    struct tls_client_hooks hooks;
    struct script_subject *subject;
    const struct script_backend_codes *codes;
    SSL *ssl;              /* while a script runs */
    X509_STORE_CTX *chain; /* while it verifies */
};

/* The hooks of a handshake that is about to begin. */
const struct tls_client_hooks *script_backend_hooks(struct script_backend *backend,
                                                    struct script_subject *subject,
                                                    const struct script_backend_codes *codes);

#endif
