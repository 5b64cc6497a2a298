/* How a session runs, from its first handler to its content, on a fiber. */
#include "stream/session/story.h"

#include <errno.h>

#include "base/clock.h"
#include "server/generation.h"

/* First size of the buffer for preread. */
#define FIRST_BUFFER 4096

/* Runs the handlers of a phase in turn, from next_handler on, until one does not give
 * SESSION_NEXT. */
static enum session_step pass(struct session *session, enum stream_phase phase)
{
    for (;;) {
        const struct stream_server *server = session->server;
        const struct session_handlers *handlers = &server->phases[phase];

        if (session->next_handler >= handlers->count) {
            session->next_handler = 0;
            return SESSION_NEXT;
        }
        enum session_step step = handlers->items[session->next_handler](session);
        if (session->is_over_memory && step != SESSION_ENDED) {
            return session_fail(session, SESSION_INTERNAL_ERROR);
        }
        if (step == SESSION_NEXT) {
            /* If the server has changed, the handlers of the new one run from the first on. */
            session->next_handler =
                session->server == server ? (uint8_t) (session->next_handler + 1) : 0;
            continue;
        }
        if (step == SESSION_SKIP) {
            session->next_handler = 0;
            return SESSION_NEXT;
        }
        return step;
    }
}

bool session_is_let_in(struct session *session)
{
    const struct session_handlers *handlers = &session->server->phases[STREAM_ACCESS];
    unsigned status = session->status;
    bool is_let_in = true;

    for (unsigned i = 0; i < handlers->count && is_let_in; i++) {
        is_let_in = handlers->items[i](session) != SESSION_ENDED;
    }
    session->status = (uint16_t) status;
    return is_let_in;
}

/* Reads more of the client's first bytes. NEXT: some have arrived; MORE: wait for them. */
static enum session_step read_more(struct session *session)
{
    struct conn *conn = session->conn;
    size_t most = session->server->preread_buffer_size;

    if (session_input(session).len >= most) {
        counters_mine->limited++;
        log_error(&session->log, 0, "preread buffer full");
        return session_fail(session, SESSION_BAD_REQUEST);
    }
    if (conn_fill(conn, most < FIRST_BUFFER ? most : FIRST_BUFFER, most)) {
        return SESSION_NEXT;
    }
    return conn->is_input_closed || conn->is_broken ? session_fail(session, SESSION_OK)
                                                    : SESSION_MORE;
}

/* Runs the preread phase, and reads input for it. */
static enum session_step preread(struct session *session)
{
    for (;;) {
        enum session_step step = pass(session, STREAM_PREREAD);

        if (step == SESSION_MORE) {
            step = session->conn != NULL
                       ? read_more(session)
                       : SESSION_SKIP; /* a datagram is complete: continue with it */
            if (step == SESSION_SKIP) {
                session->next_handler = 0;
                return SESSION_NEXT;
            }
            if (step == SESSION_NEXT) {
                continue;
            }
        }
        return step;
    }
}

/* Runs the session from its stage on. MORE: it waits for the client, without a fiber. MAY WAIT. */
static enum session_step live(struct session *session)
{
    static const enum stream_phase beginning[] = {STREAM_POST_ACCEPT, STREAM_PREACCESS,
                                                  STREAM_ACCESS};
    enum session_step step = SESSION_NEXT;

    if (session->stage == SESSION_BEGINNING) {
        for (unsigned i = 0; i < 3 && step == SESSION_NEXT; i++) {
            step = pass(session, beginning[i]);
        }
        if (step != SESSION_NEXT) {
            return step;
        }
        if (session->listen->address.is_ssl) {
            session_enter(session, SESSION_HANDSHAKE);
            return SESSION_MORE;
        }
    } else if (session->stage == SESSION_HANDSHAKE) {
        step = pass(session, STREAM_SECURE);
        if (step != SESSION_NEXT) {
            return step;
        }
    }
    if (session->stage != SESSION_PREREADING) {
        session_enter(session, SESSION_PREREADING);
    }
    step = preread(session);
    if (step != SESSION_NEXT) {
        return step;
    }
    session_enter(session, SESSION_CONTENT);
    step = session->server->content(session);
    if (step == SESSION_ENDED && session->is_over_memory) {
        session->status = SESSION_INTERNAL_ERROR;
    }
    return step; /* after SESSION_LEFT it may be freed */
}

/* The argument of a fiber; read before the fiber waits. */
struct work {
    struct session *session;
    session_handler handler;
};

static void stream_story_run(void *arg)
{
    struct work work = *(const struct work *) arg;
    struct session *session = work.session;

    fiber_set_subject(&session->log);
    enum session_step step = work.handler(session);
    fiber_set_subject(NULL);
    if (step == SESSION_LEFT) {
        return; /* it may be freed */
    }
    session->fiber = NULL;
    if (step == SESSION_MORE) {
        session_await(session);
    } else {
        session_end(session, session->status != 0 ? session->status : SESSION_OK);
    }
}

static void stream_story_begin(struct session *session, session_handler handler)
{
    struct work work = {session, handler};
    struct fiber *fiber;

    if (capacity.requests != UINT32_MAX && fiber_pool_left() <= capacity.reserve) {
        counters_mine->limited++;
        log_error(&session->log, 0, "too many active sessions: worker_requests");
        session_end(session, SESSION_UNAVAILABLE);
        return;
    }
    switch (fiber_start(stream_story_run, &work, &fiber)) {
    case FIBER_ENDED:
        break; /* the session may be freed */
    case FIBER_WAITING:
        session->fiber = fiber;
        break;
    case FIBER_NO_STACK:
        counters_mine->limited++;
        log_error(&session->log, errno, "no stack for the session's fiber");
        session_end(session, SESSION_INTERNAL_ERROR);
        break;
    }
}

void session_go_on(struct session *session)
{
    stream_story_begin(session, live);
}

void session_content(struct session *session, session_handler handler)
{
    session_enter(session, SESSION_CONTENT);
    stream_story_begin(session, handler);
}
