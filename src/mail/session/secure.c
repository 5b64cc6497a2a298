/* TLS with clients: from the first byte, or after STARTTLS. */
#include <errno.h>

#include "base/fatal.h"
#include "base/clock.h"
#include "mail/session/session.h"
#include "server/generation.h"
#include "shared/tls/accept.h"

struct settings_key mail_ssl_key;
struct settings_key mail_realip_key;

/* An address has one server, whatever name the client sends. */
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

/* Runs the handshake. MAY WAIT. False: it failed; logged. */
static bool shake_hands(struct mail_session *session, struct tls_context *context)
{
    struct conn *conn = session->conn;

    for (;;) {
        switch (tls_server_go_on(conn, context, &selector, &session->log)) {
        case TLS_DONE:
            tls_flush(conn);
            return true;
        case TLS_MORE:
            break;
        default:
            return false;
        }
        enum wait_result result = conn_wait_input(conn, session->deadline_ms);
        if (result == WAIT_TIMED_OUT) {
            log_info(&session->log, ETIMEDOUT, "client timed out");
        }
        if (result != WAIT_READY) {
            return false;
        }
    }
}

bool mail_secure(struct mail_session *session)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);
    bool has_certificate;

    session->log.action = session->is_starttls ? "in starttls state" : "SSL handshaking";
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    if (!shake_hands(session, ssl->tls.context)) {
        return false;
    }
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    if (ssl->tls.verify != TLS_VERIFY_OFF &&
        !tls_server_check_client(&ssl->tls, session->conn, &session->log, &has_certificate)) {
        session->server->protocol->refuse(session, MAIL_REFUSED_CERTIFICATE,
                                          has_certificate ? STR("SSL certificate error")
                                                          : STR("No required SSL certificate"));
        return false;
    }
    session->log.action = "in auth state";
    return true;
}

bool mail_is_secure(const struct mail_session *session)
{
    return conn_is_tls(session->conn);
}

bool mail_tls_variable(struct mail_session *session, struct str name, struct str *out)
{
    return tls_variable(session->conn, name, &session->attempt, out);
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
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    size_t injected = mail_input(session).len;

    if (injected != 0) {
        /* RFC 3207, 4.2 and 6: an attacker on the path may have inserted these bytes. */
        counters_mine->limited++;
        log_info(&session->log, 0, "%zu bytes after STARTTLS were dropped", injected);
        conn_consume(session->conn, injected);
    }
    session->is_starttls = true;
    session->is_esmtp = false;
    session->helo.len = session->from.len = session->to.len = 0;
    session->login = session->password = STR_NONE;
    return conn_wait_output(session->conn, 1, clock_now.now_ms + session->server->timeout_ms) ==
               WAIT_READY &&
           mail_secure(session);
}
