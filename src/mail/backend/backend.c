/* The backend of a session. */
#include "mail/backend/backend.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/own.h"
#include "net/conn/proxy_protocol.h"
#include "server/generation.h"
#include "upstream/connection.h"

/* Bytes that a backend may send before the client is logged in, in all lines together. */
#define DIALOGUE_MOST (64u * 1024)
#define HOPS_MOST 10 /* times that a session may pass through this service */

struct settings_key mail_proxy_key;

static const struct conn_owner asking = {.input = NULL};

/* ---- the dialogue with the backend ---- */

void backend_say(struct mail_backend *backend, struct str text)
{
    conn_write(backend->conn, text);
    conn_flush_later(backend->conn);
}

void backend_sayf(struct mail_backend *backend, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    backend_say(backend, buf_str(&text));
    buf_free(&text);
}

static struct str input_of(struct mail_backend *backend)
{
    conn_consume(backend->conn, backend->taken);
    backend->taken = 0;
    return conn_input(backend->conn);
}

/* Reads until the input has more than `had` bytes. MAY WAIT. False: logged. */
static bool read_more(struct mail_backend *backend, size_t had, uint64_t deadline_ms)
{
    struct conn *conn = backend->conn;
    uint32_t size = (uint32_t) backend->settings->buffer;
    const struct log *log = &backend->session->log;

    if (had >= size) {
        struct str shown = str_head(conn_input(conn), 200);
        counters_mine->limited++;
        log_error(log, 0, "upstream sent too long response line: \"%.*s\"", STR_ARG(shown));
        return false;
    }
    while (!conn_fill(conn, size, size)) {
        if (conn->is_broken || conn->is_input_closed) {
            log_error(log, conn->error, "upstream prematurely closed connection");
            return false;
        }
        enum wait_result result = conn_wait_input(conn, deadline_ms);
        if (result == WAIT_TIMED_OUT) {
            log_info(log, ETIMEDOUT, "upstream timed out");
        }
        if (result != WAIT_READY) {
            return false;
        }
    }
    return true;
}

/* Is the backend's output within DIALOGUE_MOST? A reply could have any number of lines. */
static bool says_little(const struct mail_backend *backend)
{
    if (backend->said <= DIALOGUE_MOST) {
        return true;
    }
    counters_mine->limited++;
    log_error(&backend->session->log, 0, "upstream sent too long response: more than %u bytes",
              DIALOGUE_MOST);
    return false;
}

bool backend_read(struct mail_backend *backend)
{
    uint64_t deadline_ms = clock_now.now_ms + backend->session->server->timeout_ms;
    size_t seen = 0;

    backend->session->log.action = "reading response from upstream";
    for (;;) {
        struct str input = input_of(backend);
        const char *end = seen < input.len ? str_find_char(str_skip(input, seen), '\n') : NULL;

        if (end != NULL) {
            backend->reply = str_from(input.data, end);
            backend->taken = backend->reply.len + 1;
            backend->said += (uint32_t) backend->taken;
            backend->reply.len -= str_ends(backend->reply, STR("\r"));
            return says_little(backend);
        }
        seen = input.len;
        if (!read_more(backend, seen, deadline_ms)) {
            return false;
        }
    }
}

bool backend_refuses(struct mail_backend *backend, struct str what)
{
    bool is_shown = backend->settings->pass_error_message;

    backend->has_refused = true;
    log_at(&backend->session->log, is_shown ? LOG_INFO : LOG_ERROR, 0,
           "upstream sent invalid response: \"%.*s\"", STR_ARG(what));
    return false;
}

/* ---- relaying ---- */

static void carrier_free(struct mail_backend *backend)
{
    backend->session->carrier = NULL;
    if (backend->conn != NULL) {
        conn_close(backend->conn);
    }
    free(backend);
}

static void ended(struct relay *relay, enum relay_why why, enum relay_end side)
{
    struct mail_backend *backend = container_of(relay, struct mail_backend, relay);
    struct mail_session *session = backend->session;
    const struct conn *conn = relay->sides[side].conn;

    session->log.action = "proxying";
    if (why == RELAY_BROKEN) {
        log_info(&session->log, conn->error, "recv() failed");
    } else if (why == RELAY_CLOSED || why == RELAY_ABORTED) {
        session->log.action = NULL;
        log_info(&session->log, 0, "proxied session done");
    } else {
        log_info(&session->log, ETIMEDOUT, "client timed out");
    }
    session->abort = NULL;
    carrier_free(backend);
    mail_session_end(session);
}

static void abort_relay(struct mail_session *session)
{
    relay_abort(&((struct mail_backend *) session->carrier)->relay);
}

static void client_moves(struct conn *conn)
{
    const struct mail_session *session = conn->user;

    relay_move(&((struct mail_backend *) session->carrier)->relay);
}

static void client_is_due(struct conn *conn)
{
    const struct mail_session *session = conn->user;

    relay_check_time(&((struct mail_backend *) session->carrier)->relay);
}

static void backend_moves(struct conn *conn)
{
    relay_move(&((struct mail_backend *) conn->user)->relay);
}

static void backend_is_due(struct conn *conn)
{
    relay_check_time(&((struct mail_backend *) conn->user)->relay);
}

static const struct conn_owner client_carried = {.input = client_moves,
                                                 .drained = client_moves,
                                                 .timed_out = client_is_due};
static const struct conn_owner backend_carried = {.input = backend_moves,
                                                  .drained = backend_moves,
                                                  .timed_out = backend_is_due};

/* Starts the relay; the session's fiber ends after this. */
static void carry(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;
    struct relay *relay = &backend->relay;

    session->log.action = NULL;
    log_info(&session->log, 0, "client logged in");
    session->log.action = "proxying";
    mail_input(session); /* drops the last command */
    input_of(backend);   /* drops the last reply */
    conn_flush(
        /* The relay does not read from either side before the other one has received the output. */
        session->conn);
    conn_flush(backend->conn);
    mail_session_shrink(session);
    conn_input_release(backend->conn);
    session->fiber = NULL;
    session->abort = abort_relay;
    session->conn->owner = &client_carried;
    backend->conn->owner = &backend_carried;
    backend->conn->user = backend;
    relay->buffer_size = (uint32_t) backend->settings->buffer;
    relay->timeout_ms = backend->settings->timeout_ms;
    relay->ended = ended;
    relay->sides[RELAY_CLIENT].conn = session->conn;
    relay->sides[RELAY_BACKEND].conn = backend->conn;
    relay_start(relay);
}

/* ---- connecting ---- */

/* Sends the client's address, before anything else. */
static void write_proxy_header(struct mail_backend *backend)
{
    char header[PROXY_HEADER_V1_MAX > PROXY_HEADER_V2_MAX ? PROXY_HEADER_V1_MAX
                                                          : PROXY_HEADER_V2_MAX];
    struct addr client, local;
    size_t length;

    if (backend->settings->protocol == MAIL_PROXY_OFF) {
        return;
    }
    mail_client(backend->session, &client);
    mail_local(backend->session, &local);
    length = backend->settings->protocol == MAIL_PROXY_V2
                 ? proxy_header_write_v2(&client, &local, header)
                 : proxy_header_write(&client, &local, header);
    conn_write(backend->conn, (struct str){header, length});
    conn_flush(backend->conn);
}

/* Has the session passed through this service too often, and may the address be this service again?
 * Logged if so. */
static bool comes_round(const struct mail_session *session, const struct addr *addr, unsigned *hops)
{
    *hops = own_may_be(addr) ? conn_hops(session->conn) : 0;
    if (*hops <= HOPS_MOST) {
        return false;
    }
    counters_mine->limited++;
    log_error(
        &session->log, 0,
        "the session has passed through this server %u times: its backend is this server itself",
        *hops);
    return true;
}

/* Connects to the backend. MAY WAIT. False: logged. */
static bool reach(struct mail_backend *backend, const struct mail_upstream *upstream)
{
    struct mail_session *session = backend->session;
    const struct upstream_target target = {.addr = upstream->addr,
                                           .name = upstream->name,
                                           .log = &session->log};
    struct upstream_connection_options options = {.keepalive = session->server->so_keepalive};
    int error = 0;

    session->upstream = upstream->name;
    session->log.action = "connecting to upstream";
    if (comes_round(session, &upstream->addr, &options.hops)) {
        return false;
    }
    if (upstream_connection_reach(&target, &options, clock_now.now_ms + session->server->timeout_ms,
                                  &backend->conn, &error) != UPSTREAM_CONNECT_OK) {
        backend->conn = NULL;
        return false;
    }
    backend->conn->owner = &asking;
    conn_set_nodelay(backend->conn, true);
    write_proxy_header(backend);
    return true;
}

enum mail_step mail_pass_on(struct mail_session *session, const struct mail_upstream *upstream)
{
    struct mail_backend *backend = calloc(1, sizeof(*backend));

    if (backend == NULL) {
        fatal_no_memory(sizeof(*backend));
    }
    backend->session = session;
    backend->settings = mail_settings(session->server, &mail_proxy_key);
    session->carrier = backend;
    if (reach(backend, upstream) && session->server->protocol->log_in(backend)) {
        carry(backend);
        return MAIL_PASSED_ON;
    }
    if (backend->has_refused && backend->settings->pass_error_message) {
        mail_sayf(session, "%.*s\r\n", STR_ARG(backend->reply));
    } else {
        session->server->protocol->refuse(session, MAIL_REFUSED_INTERNAL, STR_NONE);
    }
    carrier_free(backend);
    return MAIL_OVER;
}

enum mail_step mail_log_in(struct mail_session *session)
{
    struct mail_upstream upstream;

    switch (mail_authenticate(session, &upstream)) {
    case VERDICT_ACCEPTED:
        return mail_pass_on(session, &upstream);
    case VERDICT_AGAIN:
        return MAIL_GOES_ON;
    case VERDICT_OVER:
        break;
    }
    return MAIL_OVER;
}
