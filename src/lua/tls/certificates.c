/* Certificates and keys of scripts: read, converted, put to use. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

#include "lua/tls/tls.h"

/* Each failure is reported by the call that failed, as users of ngx.ssl know it. */
static void script_certificates_fail(char **error, const char *what)
{
    *error = (char *) (uintptr_t) what;
    ERR_clear_error();
}

/* ---- chains of certificates ---- */

static bool is_end_of_pem(void)
{
    unsigned long reason = ERR_peek_last_error();

    return ERR_GET_LIB(reason) == ERR_LIB_PEM && ERR_GET_REASON(reason) == PEM_R_NO_START_LINE;
}

/* The leaf, then the others until the text ends. */
static STACK_OF(X509) * read_pem(BIO *bio, char **error)
{
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509 *certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);

    if (certificate == NULL) {
        script_certificates_fail(error, "PEM_read_bio_X509_AUX() failed");
        sk_X509_pop_free(chain, X509_free);
        return NULL;
    }
    do {
        sk_X509_push(chain, certificate);
        certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    } while (certificate != NULL);
    if (!is_end_of_pem()) {
        script_certificates_fail(error, "PEM_read_bio_X509() failed");
        sk_X509_pop_free(chain, X509_free);
        return NULL;
    }
    ERR_clear_error();
    return chain;
}

void *script_tls_parse_pem(const unsigned char *pem, size_t size, char **error)
{
    BIO *bio = size > INT32_MAX ? NULL : BIO_new_mem_buf(pem, (int) size);

    if (bio == NULL) {
        script_certificates_fail(error, "BIO_new_mem_buf() failed");
        return NULL;
    }
    STACK_OF(X509) *chain = read_pem(bio, error);
    BIO_free(bio);
    return chain;
}

STACK_OF(X509) * script_tls_read_chain(const char *der, size_t size, char **error)
{
    STACK_OF(X509) *chain = sk_X509_new_null();
    const unsigned char *at = (const unsigned char *) der, *end = at + size;

    do {
        X509 *certificate = size > INT32_MAX ? NULL : d2i_X509(NULL, &at, end - at);

        if (certificate == NULL) {
            script_certificates_fail(error, "d2i_X509_bio() failed");
            sk_X509_pop_free(chain, X509_free);
            return NULL;
        }
        sk_X509_push(chain, certificate);
    } while (at < end);
    return chain;
}

void *script_tls_parse_der(const char *der, size_t size, char **error)
{
    return script_tls_read_chain(der, size, error);
}

int script_tls_pem_to_der(const unsigned char *pem, size_t size, unsigned char *out, char **error)
{
    STACK_OF(X509) *chain = script_tls_parse_pem(pem, size, error);
    unsigned char *at = out;

    if (chain == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    /* DER is shorter than the PEM that it came from, for which `out` has room. */
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int len = i2d_X509(sk_X509_value(chain, i), NULL);

        if (len < 0 || (size_t) len > size - (size_t) (at - out)) {
            script_certificates_fail(error, "i2d_X509() failed");
            sk_X509_pop_free(chain, X509_free);
            return SCRIPT_TLS_ERROR;
        }
        i2d_X509(sk_X509_value(chain, i), &at);
    }
    sk_X509_pop_free(chain, X509_free);
    return (int) (at - out);
}

void script_tls_free_chain(void *chain)
{
    sk_X509_pop_free(chain, X509_free);
}

/* ---- keys ---- */

/* No password is asked for on a terminal. */
static int give_password(char *out, int size, int is_writing, void *arg)
{
    const char *password = arg;
    size_t len = password == NULL ? 0 : strlen(password);

    if (len > (size_t) size) {
        len = (size_t) size;
    }
    memcpy(out, password, len);
    return (int) len;
}

static EVP_PKEY *read_key(const unsigned char *pem, size_t size, const unsigned char *password,
                          char **error)
{
    BIO *bio = size > INT32_MAX ? NULL : BIO_new_mem_buf(pem, (int) size);

    if (bio == NULL) {
        script_certificates_fail(error, "BIO_new_mem_buf() failed");
        return NULL;
    }
    EVP_PKEY *key =
        PEM_read_bio_PrivateKey(bio, NULL, give_password, (void *) (uintptr_t) password);

    BIO_free(bio);
    if (key == NULL) {
        script_certificates_fail(error, "PEM_read_bio_PrivateKey() failed");
    }
    return key;
}

void *script_tls_parse_pem_key(const unsigned char *pem, size_t size, char **error)
{
    return read_key(pem, size, NULL, error);
}

void *script_tls_parse_der_key(const char *der, size_t size, char **error)
{
    const unsigned char *at = (const unsigned char *) der;
    EVP_PKEY *key = size > INT32_MAX ? NULL : d2i_AutoPrivateKey(NULL, &at, (long) size);

    if (key == NULL) {
        script_certificates_fail(error, "d2i_PrivateKey_bio() failed");
    }
    return key;
}

int script_tls_key_to_der(const unsigned char *pem, size_t size, const unsigned char *password,
                          unsigned char *out, char **error)
{
    EVP_PKEY *key = read_key(pem, size, password, error);
    int len = key == NULL ? -1 : i2d_PrivateKey(key, NULL);

    if (key == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    if (len < 0 || (size_t) len > size) {
        script_certificates_fail(error, "i2d_PrivateKey() failed");
        len = SCRIPT_TLS_ERROR;
    } else {
        i2d_PrivateKey(key, &out);
    }
    EVP_PKEY_free(key);
    return len;
}

void script_tls_free_key(void *key)
{
    EVP_PKEY_free(key);
}

/* ---- put to use ---- */

bool script_tls_use_chain(SSL *ssl, STACK_OF(X509) * chain, char **error)
{
    if (sk_X509_num(chain) < 1) {
        script_certificates_fail(error, "invalid certificate chain");
        return false;
    }
    if (SSL_use_certificate(ssl, sk_X509_value(chain, 0)) != 1) {
        script_certificates_fail(error, "SSL_use_certificate() failed");
        return false;
    }
    if (SSL_clear_chain_certs(ssl) != 1) {
        script_certificates_fail(error, "SSL_clear_chain_certs() failed");
        return false;
    }
    for (int i = 1; i < sk_X509_num(chain); i++) {
        if (SSL_add1_chain_cert(ssl, sk_X509_value(chain, i)) != 1) {
            script_certificates_fail(error, "SSL_add1_chain_cert() failed");
            return false;
        }
    }
    return true;
}

bool script_tls_use_key(SSL *ssl, EVP_PKEY *key, char **error)
{
    if (key == NULL) {
        script_certificates_fail(error, "invalid private key failed");
        return false;
    }
    if (SSL_use_PrivateKey(ssl, key) != 1) {
        script_certificates_fail(error, "SSL_use_PrivateKey() failed");
        return false;
    }
    return true;
}

/* The connection whose certificate the running script chooses: of a client, or (is_upstream) of a
 * backend while it shakes hands. */
static SSL *chosen(bool is_upstream, char **error)
{
    SSL *ssl = is_upstream ? script_tls_upstream_ssl() : script_tls_ssl();

    if (ssl == NULL) {
        *error = (char *) (uintptr_t) "bad request";
    } else if (is_upstream && !script_runs_in(SCRIPT_PROXY_CERTIFICATE)) {
        *error = (char *) (uintptr_t) "API disabled in the current context";
        ssl = NULL;
    }
    return ssl;
}

static int set_chain(SSL *ssl, const char *der, size_t size, char **error)
{
    STACK_OF(X509) *chain = ssl == NULL ? NULL : script_tls_read_chain(der, size, error);

    if (chain == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    bool is_good = script_tls_use_chain(ssl, chain, error);
    sk_X509_pop_free(chain, X509_free);
    return is_good ? SCRIPT_TLS_OK : SCRIPT_TLS_ERROR;
}

static int set_key(SSL *ssl, const char *der, size_t size, char **error)
{
    EVP_PKEY *key = ssl == NULL ? NULL : script_tls_parse_der_key(der, size, error);

    if (key == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    bool is_good = script_tls_use_key(ssl, key, error);
    EVP_PKEY_free(key);
    return is_good ? SCRIPT_TLS_OK : SCRIPT_TLS_ERROR;
}

static int use_chain(SSL *ssl, void *chain, char **error)
{
    return ssl != NULL && script_tls_use_chain(ssl, chain, error) ? SCRIPT_TLS_OK
                                                                  : SCRIPT_TLS_ERROR;
}

static int use_key(SSL *ssl, void *key, char **error)
{
    return ssl != NULL && script_tls_use_key(ssl, key, error) ? SCRIPT_TLS_OK : SCRIPT_TLS_ERROR;
}

static int clear(SSL *ssl)
{
    if (ssl == NULL) {
        return SCRIPT_TLS_ERROR;
    }
    SSL_certs_clear(ssl);
    return SCRIPT_TLS_OK;
}

/* ---- the same by the names that scripts call; the first argument is what get_request gave, and is
 * not needed ---- */

#define FOR_EACH_SIDE(ROW) ROW(, ssl_, false) ROW(proxy_ssl_, proxy_ssl_, true)

#define SIDE(SHORT, LONG, IS_UPSTREAM)                                                             \
    static int SHORT##LONG##set_der(void *r, const char *der, size_t size, char **error)           \
    {                                                                                              \
        return set_chain(chosen(IS_UPSTREAM, error), der, size, error);                            \
    }                                                                                              \
    static int SHORT##LONG##set_der_key(void *r, const char *der, size_t size, char **error)       \
    {                                                                                              \
        return set_key(chosen(IS_UPSTREAM, error), der, size, error);                              \
    }                                                                                              \
    static int SHORT##LONG##clear(void *r, char **error)                                           \
    {                                                                                              \
        return clear(chosen(IS_UPSTREAM, error));                                                  \
    }                                                                                              \
    static int SHORT##LONG##use(void *r, void *chain, char **error)                                \
    {                                                                                              \
        return use_chain(chosen(IS_UPSTREAM, error), chain, error);                                \
    }                                                                                              \
    static int SHORT##LONG##use_key(void *r, void *key, char **error)                              \
    {                                                                                              \
        return use_key(chosen(IS_UPSTREAM, error), key, error);                                    \
    }                                                                                              \
    SCRIPT_FFI_NAME(SHORT##LONG##set_der, LONG##set_der_certificate);                              \
    SCRIPT_FFI_NAME(SHORT##LONG##set_der_key, LONG##set_der_private_key);                          \
    SCRIPT_FFI_NAME(SHORT##LONG##clear, LONG##clear_certs);                                        \
    SCRIPT_FFI_NAME(SHORT##LONG##use, SHORT##set_cert);                                            \
    SCRIPT_FFI_NAME(SHORT##LONG##use_key, SHORT##set_priv_key);

FOR_EACH_SIDE(SIDE)
SCRIPT_FFI_NAME(script_tls_pem_to_der, cert_pem_to_der);
SCRIPT_FFI_NAME(script_tls_key_to_der, priv_key_pem_to_der);
SCRIPT_FFI_NAME(script_tls_parse_pem, parse_pem_cert);
SCRIPT_FFI_NAME(script_tls_parse_der, parse_der_cert);
SCRIPT_FFI_NAME(script_tls_parse_pem_key, parse_pem_priv_key);
SCRIPT_FFI_NAME(script_tls_parse_der_key, parse_der_priv_key);
SCRIPT_FFI_NAME(script_tls_free_chain, free_cert);
SCRIPT_FFI_NAME(script_tls_free_chain, proxy_ssl_free_verify_cert);
SCRIPT_FFI_NAME(script_tls_free_key, free_priv_key);
