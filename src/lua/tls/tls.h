/*
 * ngx.ssl and similar modules: what scripts know and decide of TLS. The functions are called by FFI
 * (src/lua/library/ngx/ssl.lua …), so none of them waits; those whose names begin with ngx_ are
 * known to scripts of users by these names, in http and in stream.
 */
#ifndef LUA_TLS_TLS_H
#define LUA_TLS_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/vm/names.h"
#include "lua/vm/thread.h"
#include "net/tls/tls.h"

/* What ngx.ssl functions give: the constants of ngx.*. */
enum { SCRIPT_TLS_OK = 0, SCRIPT_TLS_ERROR = -1, SCRIPT_TLS_DECLINED = -5 };

/* ---- scripts in handshakes (handshake.c) ---- */

/* Does the handshake continue after a script that ended so? Not after an error, ngx.exit(ngx.ERROR)
 * or a status of 300 and more. */
static inline bool script_tls_agrees(enum script_end end, int exit_code)
{
    return end == SCRIPT_ENDED ||
           (end == SCRIPT_LEFT && exit_code != SCRIPT_TLS_ERROR && exit_code < 300);
}

/* The scripts of an address or a server, each may be NULL. */
struct script_tls_codes {
    struct script_code *hello, *certificate, *fetch, *store;
};

/* A handshake, as Lua sees it: on the stack of the hook that runs it. */
struct script_handshake {
    struct script_subject subject;
    struct conn *conn; /* the client's; not to be touched when the fiber was cancelled */
    SSL *ssl;
    struct log log;            /* its lines: the connection's, with the script's phase */
    struct log connection_log; /* filled by the caller */
    enum script_phase phase;
    struct str session_id; /* of fetch: that is asked for */
    SSL_SESSION *session;  /* of store: the new one; of fetch: that was set, owned; or NULL */
};

extern const struct script_subject_kind script_handshake_kind;

/* What a hook runs. */
struct script_handshake_call {
    struct script_vm *vm;
    const struct script_settings *settings;
    const struct script_code *code;
    enum script_phase phase;
    struct conn *conn;
    SSL *ssl;
    const char *name; /* "lua_certificate_by_lua", for the line that tells how it went; or NULL */
    int *context; /* where ngx.ctx is kept for what comes after; NULL: it ends with the handshake */
};

/* Runs it. False: the handshake fails (script_tls_agrees). MAY WAIT. */
bool script_handshake_run(const struct script_handshake_call *call,
                          struct script_handshake *handshake);

/*
 * Where ngx.ctx of a client's handshake is kept until the connection ends, for
 * script_handshake_call.context; the other: its place among the contexts of the VM, or LUA_NOREF:
 * there is none.
 */
int *script_handshake_context(SSL *ssl, struct script_vm *vm);
int script_handshake_context_of(const SSL *ssl, const struct script_vm *vm);

/* The SSL object that the running thread is about, or NULL: its client's. */
SSL *script_tls_ssl(void);
/* The SSL object of the connection to its backend, or NULL. */
SSL *script_tls_upstream_ssl(void);
/* The running thread's handshake, or NULL: it has none. */
struct script_handshake *script_tls_handshake(void);

/* ---- certificates.c ---- */

int script_tls_pem_to_der(const unsigned char *pem, size_t size, unsigned char *out, char **error);
int script_tls_key_to_der(const unsigned char *pem, size_t size, const unsigned char *password,
                          unsigned char *out, char **error);
void *script_tls_parse_pem(const unsigned char *pem, size_t size, char **error);
void *script_tls_parse_der(const char *der, size_t size, char **error);
void *script_tls_parse_pem_key(const unsigned char *pem, size_t size, char **error);
void *script_tls_parse_der_key(const char *der, size_t size, char **error);
void script_tls_free_chain(void *chain);
void script_tls_free_key(void *key);
/* The first of a chain in DER, counted; the others stay in *rest, or NULL where that is. */
STACK_OF(X509) * script_tls_read_chain(const char *der, size_t size, char **error);
bool script_tls_use_chain(SSL *ssl, STACK_OF(X509) * chain, char **error);
bool script_tls_use_key(SSL *ssl, EVP_PKEY *key, char **error);

#endif
