/* What scripts ask of a connection's TLS, and of whom they verify. */
#include <openssl/err.h>
#include <openssl/x509.h>
#include <string.h>

#include "lua/tls/tls.h"

#define IS_GREASE(id) (((id) &0x0f0f) == 0x0a0a && ((id) >> 8) == ((id) &0xff)) /* RFC 8701 */

static int script_connection_fail(char **error, const char *reason)
{
    *error = (char *) (uintptr_t) reason;
    ERR_clear_error();
    return SCRIPT_TLS_ERROR;
}

/* The client's, where the script did hand in a request. */
static SSL *asked(const void *r, char **error)
{
    SSL *ssl = r == NULL ? NULL : script_tls_ssl();

    if (ssl == NULL) {
        script_connection_fail(error, "bad request");
    }
    return ssl;
}

/* ---- secrets that both ends know ---- */

typedef size_t (*secret_of)(const SSL *ssl, unsigned char *out, size_t size);

/* With room for nothing: how long it is. */
static int give_secret(const void *r, secret_of get, unsigned char *out, size_t *size, char **error)
{
    SSL *ssl = asked(r, error);

    if (ssl == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    *size = get(ssl, *size == 0 ? NULL : out, *size);
    return SCRIPT_TLS_OK;
}

static size_t master_key(const SSL *ssl, unsigned char *out, size_t size)
{
    const SSL_SESSION *session = SSL_get0_session(ssl);

    return session == NULL ? 0 : SSL_SESSION_get_master_key(session, out, size);
}

static int client_random(void *r, unsigned char *out, size_t *size, char **error)
{
    return give_secret(r, SSL_get_client_random, out, size, error);
}

static int server_random(void *r, unsigned char *out, size_t *size, char **error)
{
    return give_secret(r, SSL_get_server_random, out, size, error);
}

static int session_master_key(void *r, unsigned char *out, size_t *size, char **error)
{
    return give_secret(r, master_key, out, size, error);
}

SCRIPT_FFI_NAME(client_random, ssl_client_random);
SCRIPT_FFI_NAME(server_random, ssl_server_random);
SCRIPT_FFI_NAME(session_master_key, ssl_session_master_key);

/* Keying material that a script asks for (RFC 5705); src/lua/library/ngx/ssl.lua declares it, too.
 */
struct script_tls_export {
    unsigned char *out;
    size_t size;
    const char *label;
    size_t label_size;
    const unsigned char *context; /* or NULL */
    size_t context_size;
    int is_early;
};

int script_tls_export(const struct script_tls_export *wanted, char **error);

int script_tls_export(const struct script_tls_export *wanted, char **error)
{
    SSL *ssl = asked(wanted, error);
    int result;

    if (ssl == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    if (wanted->is_early) {
        result = SSL_export_keying_material_early(ssl, wanted->out, wanted->size, wanted->label,
                                                  wanted->label_size, wanted->context,
                                                  wanted->context_size);
        return result == 1
                   ? SCRIPT_TLS_OK
                   : script_connection_fail(error, "SSL_export_keying_material_early() failed");
    }
    result = SSL_export_keying_material(ssl, wanted->out, wanted->size, wanted->label,
                                        wanted->label_size, wanted->context, wanted->context_size,
                                        wanted->context != NULL);
    return result == 1 ? SCRIPT_TLS_OK
                       : script_connection_fail(error, "SSL_export_keying_material() failed");
}

/* ---- ciphers that both have ---- */

static int shared_ciphers(void *r, uint16_t *out, uint16_t *count, int without_grease, char **error)
{
    SSL *ssl = asked(r, error);
    STACK_OF(SSL_CIPHER) *of_client = ssl == NULL ? NULL : SSL_get_client_ciphers(ssl);
    STACK_OF(SSL_CIPHER) *ours = ssl == NULL ? NULL : SSL_get1_supported_ciphers(ssl);
    uint16_t room = *count;

    *count = 0;
    if (ssl == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    for (int i = 0; i < sk_SSL_CIPHER_num(of_client) && *count < room; i++) {
        const SSL_CIPHER *cipher = sk_SSL_CIPHER_value(of_client, i);
        uint16_t id = SSL_CIPHER_get_protocol_id(cipher);

        if (sk_SSL_CIPHER_find(ours, (SSL_CIPHER *) (uintptr_t) cipher) >= 0 &&
            !(without_grease && IS_GREASE(id))) {
            out[(*count)++] = id;
        }
    }
    sk_SSL_CIPHER_free(ours);
    return SCRIPT_TLS_OK;
}

SCRIPT_FFI_NAME(shared_ciphers, req_shared_ssl_ciphers);

/* ---- pointers, versions ---- */

static void *ssl_pointer(void *r)
{
    return script_tls_ssl();
}

static void *upstream_ssl_pointer(void *r)
{
    return script_tls_upstream_ssl();
}

/* For lua-resty-openssl: 0, or -1 where there is no TLS. */
static int request_ssl(void *r, void **out)
{
    *out = script_tls_ssl();
    return *out != NULL ? 0 : -1;
}

static int request_ssl_context(void *r, void **out)
{
    const SSL *ssl = script_tls_ssl();

    *out = ssl != NULL ? SSL_get_SSL_CTX(ssl) : NULL;
    return *out != NULL ? 0 : -1;
}

static int version_of(const SSL *ssl, char **error)
{
    return ssl == NULL ? script_connection_fail(error, "bad request") : SSL_version(ssl);
}

static int version(void *r, char **error)
{
    return version_of(script_tls_ssl(), error);
}

static int upstream_version(void *r, char **error)
{
    return version_of(script_tls_upstream_ssl(), error);
}

SCRIPT_FFI_NAME(ssl_pointer, get_req_ssl_pointer);
SCRIPT_FFI_NAME(upstream_ssl_pointer, get_upstream_ssl_pointer);
SCRIPT_OPENSSL_NAME(request_ssl, get_request_ssl);
SCRIPT_OPENSSL_NAME(request_ssl_context, get_request_ssl_ctx);
SCRIPT_FFI_NAME(version, ssl_get_tls1_version);
SCRIPT_FFI_NAME(upstream_version, proxy_ssl_get_tls1_version);

/* ---- the client's certificate ---- */

/* What is found is noted: the request sees it in $ssl_client_verify. */
static int look_away(int is_good, X509_STORE_CTX *context)
{
    return 1;
}

/* Authorities that clients' certificates may come from; the names of those of `chain` are sent.
 * False: no memory. */
static bool trust(SSL *ssl, STACK_OF(X509) * chain, STACK_OF(X509) * trusted)
{
    X509_STORE *store = X509_STORE_new();
    STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
    bool is_good = store != NULL && names != NULL;

    for (int i = 0; is_good && i < sk_X509_num(chain); i++) {
        X509_NAME *name = X509_NAME_dup(X509_get_subject_name(sk_X509_value(chain, i)));

        is_good = name != NULL && X509_STORE_add_cert(store, sk_X509_value(chain, i)) == 1 &&
                  sk_X509_NAME_push(names, name) > 0;
    }
    for (int i = 0; is_good && i < sk_X509_num(trusted); i++) {
        is_good = X509_STORE_add_cert(store, sk_X509_value(trusted, i)) == 1;
    }
    if (!is_good) {
        X509_STORE_free(store);
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return false;
    }
    SSL_set0_verify_cert_store(ssl, store);
    SSL_set_client_CA_list(ssl, names);
    return true;
}

static int verify_client(void *r, void *chain, void *trusted, int depth, char **error)
{
    if (!script_runs_in(SCRIPT_CERTIFICATE)) {
        return script_connection_fail(error, "API disabled in the current context");
    }
    SSL *ssl = asked(r, error);
    if (ssl == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE, look_away);
    if (depth >= 0) {
        SSL_set_verify_depth(ssl, depth);
    }
    if ((chain != NULL || trusted != NULL) && !trust(ssl, chain, trusted)) {
        return script_connection_fail(error, "X509_STORE_add_cert() failed");
    }
    return SCRIPT_TLS_OK;
}

SCRIPT_FFI_NAME(verify_client, ssl_verify_client);
