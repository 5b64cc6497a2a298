/* TLS with clients: from the first byte, or after STARTTLS. */
#include <errno.h>

#include "base/clock.h"
#include "mail/session/session.h"
#include "server/generation.h"

struct settings_key mail_ssl_key;
struct settings_key mail_realip_key;

/* There is one server behind an address, whatever name the client has for it. */
static struct tls_context *select_server(struct conn *conn, struct str name, struct str *protocols,
                                         void *arg)
{
    const struct mail_session *session = conn->user;
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);

    *protocols = session->server->protocol->alpn;
    return ssl->tls.context;
}

static void log_of(struct conn *conn, struct log *out)
{
    *out = ((const struct mail_session *) conn->user)->log;
}

static const struct tls_selector selector = {.select = select_server, .log = log_of};

/* As far as the handshake goes. MAY WAIT. */
static enum tls_progress shake_hands(struct mail_session *session, uint64_t deadline_ms)
{
    struct conn *conn = session->conn;

    for (;;) {
        enum tls_progress progress = tls_handshake(conn);

        if (progress != TLS_MORE) {
            return progress;
        }
        switch (conn_wait_input(conn, deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            log_info(&session->log, ETIMEDOUT, "client timed out");
            return TLS_FAILED;
        case WAIT_CANCELLED:
            return TLS_FAILED;
        }
    }
}

static bool refuse_certificate(struct mail_session *session, struct str text)
{
    tls_forget_session(session->conn);
    session->server->protocol->refuse(session, MAIL_REFUSED_CERTIFICATE, text);
    return false;
}

/* The client was asked for a certificate: will it do? */
static bool check_certificate(struct mail_session *session, unsigned verify)
{
    bool has_certificate;
    const char *reason;
    long result = tls_verify_result(session->conn, &has_certificate, &reason);

    if (result != 0 && !(verify == TLS_VERIFY_OPTIONAL_NO_CA && tls_verify_may_be_foreign(result))) {
        log_info(&session->log, 0, "client SSL certificate verify error: (%ld:%s)", result, reason);
        return refuse_certificate(session, STR("SSL certificate error"));
    }
    if (verify == TLS_VERIFY_ON && !has_certificate) {
        log_info(&session->log, 0, "client sent no required SSL certificate");
        return refuse_certificate(session, STR("No required SSL certificate"));
    }
    return true;
}

bool mail_secure(struct mail_session *session)
{
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);
    struct conn *conn = session->conn;
    struct log *kept = conn->log;

    session->log.action = session->is_starttls ? "in starttls state" : "SSL handshaking";
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    conn->log = &session->log;
    enum tls_progress progress = tls_accept(conn, ssl->tls.context, &selector)
                                     ? shake_hands(session, session->deadline_ms)
                                     : TLS_FAILED;
    conn->log = kept;
    if (progress != TLS_DONE) {
        counters_mine->tls_failures++;
        return false;
    }
    counters_mine->tls_handshakes++;
    tls_flush(conn);
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    return ssl->tls.verify == TLS_VERIFY_OFF || check_certificate(session, ssl->tls.verify);
}

bool mail_offers_starttls(const struct mail_session *session)
{
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);

    return ssl != NULL && ssl->starttls != STARTTLS_OFF && !conn_is_tls(session->conn);
}

bool mail_needs_starttls(const struct mail_session *session)
{
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);

    return ssl != NULL && ssl->starttls == STARTTLS_ONLY && !conn_is_tls(session->conn);
}

bool mail_starttls(struct mail_session *session)
{
    size_t injected = mail_input(session).len;

    if (injected != 0) {
        /* RFC 3207, 4.2 and 6: who stands in between may have put it there. */
        counters_mine->limited++;
        log_info(&session->log, 0, "%zu bytes after STARTTLS were dropped", injected);
        conn_consume(session->conn, injected);
    }
    session->is_starttls = true;
    session->is_esmtp = false;
    session->helo.len = session->from.len = session->to.len = 0;
    session->login = session->password = STR_NONE;
    return conn_wait_output(session->conn, 1,
                            clock_now.now_ms + session->server->timeout_ms) == WAIT_READY &&
           mail_secure(session);
}
