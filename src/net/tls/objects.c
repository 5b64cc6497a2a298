/* OpenSSL objects for scripts: sessions, certificates, stores, and whether the peer is trusted. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/checksum.h"
#include "net/tls/private.h"

static bool use_certificates(SSL *ssl, STACK_OF(X509) * chain, EVP_PKEY *key)
{
    if (sk_X509_num(chain) < 1 || SSL_use_certificate(ssl, sk_X509_value(chain, 0)) != 1) {
        return false;
    }
    for (int i = 1; i < sk_X509_num(chain); i++) {
        if (SSL_add1_chain_cert(ssl, sk_X509_value(chain, i)) != 1) {
            return false;
        }
    }
    return SSL_use_PrivateKey(ssl, key) == 1 && SSL_check_private_key(ssl) == 1;
}

bool tls_use_objects(SSL *ssl, const struct tls_client_objects *objects, const struct log *log)
{
    if (objects->chain != NULL && !use_certificates(ssl, objects->chain, objects->key)) {
        tls_log_at(log, LOG_ERROR, "SSL_use_certificate() failed");
        return false;
    }
    if (objects->store != NULL && SSL_set1_verify_cert_store(ssl, objects->store) != 1) {
        tls_log_at(log, LOG_ERROR, "SSL_set1_verify_cert_store() failed");
        return false;
    }
    if (objects->asks_status && SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp) != 1) {
        tls_log_at(log, LOG_ERROR, "SSL_set_tlsext_status_type() failed");
        return false;
    }
    if (objects->session != NULL && SSL_set_session(ssl, objects->session) != 1) {
        ERR_clear_error(); /* it is not usable; a full handshake follows */
    }
    return true;
}

uint64_t tls_objects_identity(const struct tls_client_objects *objects)
{
    const void *words[] = {
        objects->chain != NULL ? sk_X509_value(objects->chain, 0) : NULL,
        objects->key,
        objects->store,
    };

    return keyed_hash((struct str){(const char *) words, sizeof(words)});
}

/* ---- objects of a connection ---- */

void *tls_ssl_context(const struct conn *conn)
{
    SSL *ssl = tls_ssl(conn);

    return ssl != NULL ? SSL_get_SSL_CTX(ssl) : NULL;
}

void *tls_session(const struct conn *conn)
{
    SSL *ssl = tls_ssl(conn);

    return ssl != NULL ? SSL_get1_session(ssl) : NULL;
}

bool tls_session_is_resumable(const void *session)
{
    return SSL_SESSION_is_resumable(session) == 1;
}

void tls_session_free(void *session)
{
    SSL_SESSION_free(session);
}

void *tls_store_hold(void *store)
{
    if (store != NULL) {
        X509_STORE_up_ref(store);
    }
    return store;
}

void tls_store_free(void *store)
{
    X509_STORE_free(store);
}

enum tls_trust tls_peer_trust(const struct conn *conn, struct str name, long *code,
                              const char **reason)
{
    SSL *ssl = tls_ssl(conn);
    X509 *certificate = SSL_get0_peer_certificate(ssl);

    *code = SSL_get_verify_result(ssl);
    *reason = X509_verify_cert_error_string(*code);
    if (*code != X509_V_OK) {
        return TLS_UNTRUSTED;
    }
    bool is_right =
        name.len == 0 || (certificate != NULL && tls_certificate_is_for(certificate, name));
    ERR_clear_error();
    return is_right ? TLS_TRUSTED : TLS_OTHER_NAME;
}
