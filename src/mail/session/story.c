/* How a session runs: accept, PROXY header, TLS, greeting, commands, end. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "mail/session/session.h"
#include "server/generation.h"

enum {
    PROXY_BUFFER = PROXY_HEADER_MAX + 4096, /* for a PROXY header and the bytes that follow it */
    LAST_WORDS_MS = 5000,                   /* for sending the last bytes */
    FIBERS_RESERVED = 64, /* fibers that other code may need to finish its work: with fewer left no
                             session begins */
};

static const struct conn_owner on_fiber = {.input = NULL};

/* ---- the end ---- */

static void session_free(struct mail_session *session)
{
    free(session->proxy);
    free(session->kept);
    buf_free(&session->helo);
    buf_free(&session->from);
    buf_free(&session->to);
    arena_free(&session->attempt);
    arena_free(&session->arena);
    session->magic = 0;
    free(session);
    counters_mine->active--;
}

void mail_session_shrink(struct mail_session *session)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    struct str *texts[] = {&session->client_text, &session->login, &session->upstream};
    size_t size = 0;

    mail_client_text(session);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size += texts[i]->len;
    }
    session->kept = malloc(size);
    if (session->kept == NULL) {
        fatal_no_memory(size);
    }
    char *at = session->kept;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *end = str_put(at, *texts[i]);

        *texts[i] = str_from(at, end);
        at = end;
    }
    session->host = session->salt = session->tag = session->error_code = STR_NONE;
    session->password = STR_NONE;
    buf_free(&session->helo);
    buf_free(&session->from);
    buf_free(&session->to);
    arena_free(&session->attempt);
    arena_free(&session->arena);
    conn_input_release(session->conn);
}

void mail_session_end(struct mail_session *session)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    struct conn *conn = session->conn;

    if (!conn->is_broken) {
        conn->is_last_output = 1;
        conn_flush(conn);
    }
    if (!conn->is_broken && conn_unsent(conn) != 0 && session->fiber != NULL) {
        conn_wait_output(conn, 1, clock_now.now_ms + LAST_WORDS_MS);
    }
    conn_close(conn);
    session_free(session);
}

/* ---- the session ---- */

/* Reads the PROXY header. MAY WAIT. False: there is none; logged. */
static bool read_proxy_header(struct mail_session *session)
{
    struct conn *conn = session->conn;
    size_t used;

    session->log.action = "reading PROXY protocol";
    for (;;) {
        conn_fill(conn, PROXY_BUFFER, PROXY_BUFFER);
        struct str input = conn_input(conn);

        switch (proxy_header_parse(input, &session->proxy, &used)) {
        case PROXY_HEADER_DONE:
            conn_consume(conn, used);
            mail_client_believe(session);
            return true;
        case PROXY_HEADER_MORE:
            break;
        case PROXY_HEADER_BAD:
            counters_mine->limited++;
            input = str_head(input, 80);
            log_error(&session->log, 0, "broken header: \"%.*s\"", STR_ARG(input));
            return false;
        }
        if (conn->is_broken || conn->is_input_closed) {
            return false;
        }
        switch (conn_wait_input(conn, session->deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            log_info(&session->log, ETIMEDOUT, "client timed out");
            return false;
        case WAIT_CANCELLED:
            return false;
        }
    }
}

static bool greet(struct mail_session *session)
{
    session->log.action = "in auth state";
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    session->has_greeted = session->server->protocol->greet(session);
    return session->has_greeted;
}

static enum mail_step mail_story_tell(struct mail_session *session)
{
    const struct listen_address *address = &session->listen->address;

    if (address->is_proxy_protocol && !read_proxy_header(session)) {
        return MAIL_OVER;
    }
    if (address->is_ssl && !mail_secure(session)) {
        return MAIL_OVER;
    }
    if (!session->has_greeted && !greet(session)) {
        return MAIL_OVER;
    }
    session->log.action = "in auth state";
    return session->server->protocol->serve(session);
}

static void mail_story_run(void *arg)
{
    struct mail_session *session = arg;

    if (mail_story_tell(session) != MAIL_PASSED_ON) {
        mail_session_end(session);
    }
}

/* Starts the session's fiber. The session may be over when this returns. */
static void mail_story_start(struct mail_session *session)
{
    struct conn *conn = session->conn;

    conn->owner = &on_fiber;
    timer_remove(&conn->timer);
    if (fiber_pool_left() <= FIBERS_RESERVED ||
        fiber_start(mail_story_run, session, &session->fiber) == FIBER_NO_STACK) {
        counters_mine->limited++;
        log_error(&session->log, 0, "no free fiber for the session");
        session->server->protocol->refuse(session, MAIL_REFUSED_INTERNAL, STR_NONE);
        mail_session_end(session);
    }
}

/* ---- before the client sends: no fiber ---- */

static void first_input(struct conn *conn)
{
    mail_story_start(conn->user);
}

static void silence(struct conn *conn)
{
    struct mail_session *session = conn->user;

    log_info(&session->log, ETIMEDOUT, "client timed out");
    mail_session_end(session);
}

static const struct conn_owner before_input = {.input = first_input, .timed_out = silence};

static void wait_for_input(struct mail_session *session)
{
    struct conn *conn = session->conn;

    conn->owner = &before_input;
    session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    conn_set_deadline(conn, session->deadline_ms);
    conn_start(conn);
}

/* ---- accept ---- */

static struct mail_session *session_new(const struct mail_listen *listen, int fd,
                                        const struct addr *peer)
{
    struct conn *conn = conn_new(fd, peer, &before_input, &((struct mail_listen *) listen)->log);

    if (conn == NULL) {
        counters_mine->limited++;
        close(fd);
        return NULL;
    }
    struct mail_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        fatal_no_memory(sizeof(*session));
    }
    session->magic = MAIL_SESSION_MAGIC;
    session->conn = conn;
    session->listen = listen;
    session->server = listen->server;
    arena_init_small(&session->arena);
    arena_init_small(&session->attempt);
    mail_session_log_init(session);
    conn->user = session;
    conn->listener = listen->address.listener;
    counters_mine->active++;
    return session;
}

static void log_accept(struct mail_session *session)
{
    struct addr peer;
    char text[ADDR_TEXT_MAX];
    struct log log = session->listen->log;

    if (log.level < LOG_INFO) {
        return;
    }
    log.connection = session->log.connection;
    conn_peer(session->conn, &peer);
    size_t length = addr_format(&peer, true, text);
    log_info(&log, 0, "client %.*s connected to %.*s", (int) length, text,
             STR_ARG(session->listen->address.listener->text));
}

void mail_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    const struct mail_listen *listen = listener->user;
    struct mail_session *session = session_new(listen, fd, peer);

    counters_mine->accepted++;
    if (session == NULL) {
        return;
    }
    counters_mine->handled++;
    log_accept(session);
    if (listen->address.is_proxy_protocol || listen->address.is_ssl) {
        session->log.action =
            listen->address.is_proxy_protocol ? "reading PROXY protocol" : "SSL handshaking";
        wait_for_input(session);
    } else if (session->server->protocol->greets_at_once) {
        greet(session);
        wait_for_input(session);
    } else {
        mail_story_start(session);
    }
}

/* ---- the end of the worker ---- */

struct mail_session *mail_session_of(const struct conn *conn)
{
    struct mail_session *session = conn->listener != NULL ? conn->user : NULL;

    return session != NULL && session->magic == MAIL_SESSION_MAGIC ? session : NULL;
}

static void abort_one(struct conn *conn, void *arg)
{
    struct mail_session *session = mail_session_of(conn);

    if (session == NULL) {
        return;
    }
    if (session->abort != NULL) {
        session->abort(session);
    } else if (session->fiber != NULL) {
        conn_fail(conn, ECANCELED);
        fiber_cancel(session->fiber);
    } else {
        conn_fail(conn, ECANCELED);
        mail_session_end(session);
    }
}

void mail_sessions_abort(void)
{
    conn_each(abort_one, NULL);
}
