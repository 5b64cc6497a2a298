/* Handshakes with clients: the part that all protocols share. */
#include "shared/tls/accept.h"

#include "server/generation.h"

static void tls_accept_count(const struct conn *conn, enum tls_progress progress)
{
    struct arena arena; /* never used by these texts */
    struct str text;

    if (progress == TLS_FAILED) {
        enum tls_failure why = tls_last_failure();

        counters_mine->tls_failures++;
        counters_mine->tls_no_protocol += why == TLS_NO_PROTOCOL;
        counters_mine->tls_no_cipher += why == TLS_NO_CIPHER;
        counters_mine->tls_rejected += why == TLS_REJECTED_CERTIFICATE;
    }
    if (progress != TLS_DONE) {
        return;
    }
    arena_init(&arena);
    counters_mine->tls_handshakes++;
    counters_mine->tls_resumed +=
        tls_variable(conn, STR("session_reused"), &arena, &text) && str_is(text, "r");
    counters_mine->tls_version_1_3 +=
        tls_variable(conn, STR("protocol"), &arena, &text) && str_is(text, "TLSv1.3");
    arena_free(&arena);
}

enum tls_progress tls_server_go_on(struct conn *conn, struct tls_context *first,
                                   const struct tls_selector *selector, struct log *log)
{
    struct log *kept = conn->log;

    if (!conn_is_tls(conn)) {
        tls_accept(conn, first, selector);
    }
    conn->log = log;
    enum tls_progress progress = tls_handshake(conn);
    conn->log = kept;
    tls_accept_count(conn, progress);
    if (progress == TLS_DONE && tls_is_challenge(conn)) {
        log_info(log, 0, "a CA has seen the answer to its challenge tls-alpn-01");
        return TLS_FAILED; /* closes the connection (RFC 8737, 3) */
    }
    return progress;
}

const struct tls_server_settings *tls_server_certified(const struct tls_server_settings *chosen,
                                                       const struct tls_server_settings *first)
{
    return chosen->context != NULL ? chosen : first;
}

struct tls_context *tls_server_context(const struct tls_server_settings *chosen,
                                       const struct tls_server_settings *first)
{
    return chosen->rejects_handshake ? NULL : tls_server_certified(chosen, first)->context;
}

bool tls_server_check_listen(struct conf *conf, const struct conf_node *node, const char *parameter,
                             const struct vec *servers, const void *first,
                             const struct tls_server_settings *(*settings_of)(const void *server))
{
    const struct tls_server_settings *settings = settings_of(first);
    bool is_good = settings->certificates.count != 0 || settings->rejects_handshake;

    if (settings->certificates.count == 0 && settings->rejects_handshake) {
        vec_each(const void *, server, servers) {
            const struct tls_server_settings *own = settings_of(*server);
            is_good &= own->certificates.count != 0 || own->rejects_handshake;
        }
    }
    return is_good ||
           conf_error(conf, node,
                      "no \"ssl_certificate\" is defined for the \"listen ... %s\" directive",
                      parameter);
}

/* Counts the reason for which a certificate was refused. */
static void count_unverified(long result)
{
    switch (tls_verify_kind(result)) {
    case TLS_CERTIFICATE_EXPIRED:
        counters_mine->tls_expired++;
        break;
    case TLS_CERTIFICATE_REVOKED:
        counters_mine->tls_revoked++;
        break;
    case TLS_CERTIFICATE_OTHER:
        counters_mine->tls_unverified++;
        break;
    }
}

bool tls_server_check_client(const struct tls_server_settings *settings, struct conn *conn,
                             const struct log *log, bool *has_certificate)
{
    const char *reason;
    long result = tls_verify_result(conn, has_certificate, &reason);

    if (result != 0 &&
        (settings->verify != TLS_VERIFY_OPTIONAL_NO_CA || !tls_verify_may_be_foreign(result))) {
        log_info(log, 0, "client SSL certificate verify error: (%ld:%s)", result, reason);
        count_unverified(result);
        *has_certificate = true;
        tls_forget_session(conn);
        return false;
    }
    if (settings->verify == TLS_VERIFY_ON && !*has_certificate) {
        log_info(log, 0, "client sent no required SSL certificate");
        counters_mine->tls_no_certificate++;
        tls_forget_session(conn);
        return false;
    }
    return true;
}
