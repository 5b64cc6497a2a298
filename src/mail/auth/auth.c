/* The authentication server: the request, its response, and what follows from it. */
#include "mail/auth/auth.h"

#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "mail/words/auth_response.h"
#include "mail/words/sasl.h"
#include "server/generation.h"
#include "upstream/connection.h"

struct settings_key mail_auth_key;

enum {
    ANSWER_MAX = 16384,     /* bytes of a response header */
    WAIT_MAX_S = 24 * 3600, /* the longest Auth-Wait; larger values are reduced to it */
};

static const struct conn_owner asking = {.input = NULL};

/* Logs an error of the authentication server, with its address. */
#define log_server(session, auth, error, format, ...)                                              \
    log_error(&(session)->log, error, "auth http server %.*s " format, STR_ARG((auth)->peer),      \
              ##__VA_ARGS__)

/* Reads the response header into session->attempt. MAY WAIT. False: logged. */
static bool read_answer(struct mail_session *session, const struct mail_auth *auth,
                        struct conn *conn, uint64_t deadline_ms, struct auth_response *out)
{
    size_t seen = 0;

    for (;;) {
        bool has_more = conn_fill(conn, ANSWER_MAX, ANSWER_MAX);
        struct str input = conn_input(conn);

        if (has_more) {
            size_t before = seen;
            switch (auth_response_read(input, &seen, out)) {
            case AUTH_DONE:
                seen = before;
                auth_response_read(arena_dup(&session->attempt, input), &seen, out);
                return true;
            case AUTH_BAD:
                log_server(session, auth, 0, "sent invalid header in response");
                return false;
            case AUTH_MORE:
                continue;
            }
        }
        if (input.len >= ANSWER_MAX) {
            counters_mine->limited++;
            log_server(session, auth, 0, "sent too long header in response");
            return false;
        }
        if (conn->is_broken || conn->is_input_closed) {
            log_server(session, auth, conn->error, "prematurely closed connection");
            return false;
        }
        enum wait_result result = conn_wait_input(conn, deadline_ms);
        if (result == WAIT_TIMED_OUT) {
            log_server(session, auth, ETIMEDOUT, "timed out");
        }
        if (result != WAIT_READY) {
            return false;
        }
    }
}

/* Sends one request on a connection of its own, and reads the response. MAY WAIT. False: logged. */
static bool mail_auth_ask(struct mail_session *session, const struct mail_auth *auth,
                          struct auth_response *out)
{
    const struct upstream_target target = {.addr = auth->addr,
                                           .name = auth->peer,
                                           .log = &session->log};
    const struct upstream_connection_options options = {.tells_timeout = true};
    uint64_t deadline_ms = clock_now.now_ms + auth->timeout_ms;
    struct conn *conn;
    int error = 0;

    switch (upstream_connection_reach(&target, &options, deadline_ms, &conn, &error)) {
    case UPSTREAM_CONNECT_OK:
        break;
    case UPSTREAM_CONNECT_TIMED_OUT:
        log_server(session, auth, ETIMEDOUT, "timed out");
        return false;
    default:
        return false;
    }
    conn->owner = &asking;
    conn_write(conn, mail_auth_request(session, auth));
    conn_flush(conn);
    bool is_good = read_answer(session, auth, conn, deadline_ms, out);
    conn_close(conn);
    return is_good;
}

/* Takes the backend from the response. False: there is no valid one; logged. */
static bool take_upstream(struct mail_session *session, const struct mail_auth *auth,
                          const struct auth_response *response, struct mail_upstream *upstream)
{
    uint64_t port;

    if (response->server.len == 0 || response->port.len == 0) {
        log_server(session, auth, 0, "did not send server or port");
        return false;
    }
    if (session->password.data == NULL && session->server->protocol->needs_password) {
        log_server(session, auth, 0, "did not send password");
        return false;
    }
    if (str_starts(response->server, STR("[")) ||
        !addr_parse_ip(response->server, &upstream->addr)) {
        log_server(session, auth, 0, "sent invalid server address:\"%.*s\"",
                   STR_ARG(response->server));
        return false;
    }
    if (!parse_uint(response->port, &port) || port == 0 || port > UINT16_MAX) {
        log_server(session, auth, 0, "sent invalid server port:\"%.*s\"", STR_ARG(response->port));
        return false;
    }
    addr_set_port(&upstream->addr, (uint16_t) port);
    upstream->name =
        arena_printf(&session->attempt, "%.*s:%u", STR_ARG(response->server), (unsigned) port);
    return true;
}

/* Takes credentials from the response instead of the client's. A digest cannot serve as the
 * password for a backend. */
static void take_credentials(struct mail_session *session, const struct auth_response *response)
{
    if (response->user.data != NULL) {
        session->login = response->user;
    }
    if (response->password.data != NULL) {
        session->password = response->password;
    } else if (session->method == MAIL_APOP || session->method == MAIL_CRAM_MD5 ||
               session->method == MAIL_EXTERNAL) {
        session->password = STR_NONE;
    }
}

static uint64_t wait_end_ms(uint64_t seconds)
{
    return clock_now.now_ms + (seconds < WAIT_MAX_S ? seconds : WAIT_MAX_S) * 1000;
}

/*
 * Waits before the server is asked again. Without the check, a client that has closed its side
 * would be asked about forever, whatever it sent before. MAY WAIT. False: it has left, or the
 * session is being aborted.
 */
static bool wait_to_ask(struct mail_session *session, uint64_t seconds)
{
    return mail_wait_with_client(session, wait_end_ms(seconds));
}

/* Waits before a refusal. MAY WAIT. False: the client cannot receive it. */
static bool wait_to_refuse(struct mail_session *session, uint64_t seconds)
{
    return fiber_sleep(wait_end_ms(seconds)) != WAIT_CANCELLED && !mail_is_broken(session);
}

static enum mail_verdict mail_auth_refuse(struct mail_session *session,
                                          const struct auth_response *response)
{
    log_info(&session->log, 0, "client login failed: \"%.*s\"", STR_ARG(response->status));
    if (response->wait_s != 0 && !wait_to_refuse(session, response->wait_s)) {
        return VERDICT_OVER;
    }
    session->error_code = response->error_code;
    session->server->protocol->refuse(session, MAIL_REFUSED_LOGIN, response->status);
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    return response->wait_s != 0 ? VERDICT_AGAIN : VERDICT_OVER;
}

enum mail_verdict mail_authenticate(struct mail_session *session, struct mail_upstream *upstream)
{
    const struct mail_auth *auth = mail_settings(session->server, &mail_auth_key);
    struct auth_response response;
    enum mail_verdict verdict = VERDICT_OVER;

    session->attempts++;
    session->log.action = "in http auth state";
    for (;;) {
        if (!mail_auth_ask(session, auth, &response)) {
            session->server->protocol->refuse(session, MAIL_REFUSED_INTERNAL, STR_NONE);
            break;
        }
        if (response.is_wait && response.wait_s != 0) {
            if (!wait_to_ask(session, response.wait_s)) {
                break;
            }
            continue;
        }
        if (response.has_status && !response.is_ok && !response.is_wait) {
            verdict = mail_auth_refuse(session, &response);
            break;
        }
        take_credentials(session, &response);
        if (take_upstream(session, auth, &response, upstream)) {
            verdict = VERDICT_ACCEPTED;
        } else {
            session->server->protocol->refuse(session, MAIL_REFUSED_INTERNAL, STR_NONE);
        }
        break;
    }
    session->log.action = "in auth state";
    return verdict;
}
