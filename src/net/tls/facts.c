/* Information about a connection's TLS for the layers above. */
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "net/tls/private.h"

struct str tls_alpn(const struct conn *conn)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    if (conn_is_tls(conn) && tls_of(conn)->ssl != NULL) {
        SSL_get0_alpn_selected(tls_of(conn)->ssl, &name, &len);
    }
    return (struct str){(const char *) name, len};
}

struct str tls_server_name(const struct conn *conn)
{
    if (!conn_is_tls(conn) || tls_of(conn)->ssl == NULL) {
        return STR_NONE;
    }
    return str_of(SSL_get_servername(tls_of(conn)->ssl, TLSEXT_NAMETYPE_host_name));
}

bool tls_is_early(const struct conn *conn)
{
    return conn_is_tls(conn) && tls_of(conn)->is_early && !SSL_is_init_finished(tls_of(conn)->ssl);
}

long tls_verify_result(const struct conn *conn, bool *has_certificate, const char **reason)
{
    const struct tls *tls = tls_of(conn);

    *has_certificate = SSL_get0_peer_certificate(tls->ssl) != NULL;
    long result = SSL_get_verify_result(tls->ssl);
    *reason = X509_verify_cert_error_string(result);
    if (result == X509_V_OK && tls->ocsp_reason != NULL) {
        *reason = tls->ocsp_reason;
        return tls->ocsp_error;
    }
    return result;
}

bool tls_verify_may_be_foreign(long result)
{
    return result == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
           result == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
           result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
           result == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

enum tls_certificate_fault tls_verify_kind(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return TLS_CERTIFICATE_EXPIRED;
    case X509_V_ERR_CERT_REVOKED:
        return TLS_CERTIFICATE_REVOKED;
    default:
        return TLS_CERTIFICATE_OTHER;
    }
}

void tls_forget_session(struct conn *conn)
{
    SSL *ssl = tls_of(conn)->ssl;
    SSL_SESSION *session = SSL_get0_session(ssl);

    if (session != NULL) {
        SSL_CTX_remove_session(tls_of(conn)->made_with, session);
        /* The context may have been released. */
        tls_session_drop(tls_session_context(ssl), session);
    }
}
