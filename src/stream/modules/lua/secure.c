/* TLS that a script begins in the middle of a session (as STARTTLS does): serversslhandshake of
 * request sockets. */
#include <errno.h>

#include "base/clock.h"
#include "net/conn/conn.h"
#include "stream/modules/lua/lua.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

#define SECURE_PHASES (SCRIPT_PREREAD | SCRIPT_CONTENT)

/* A step of the handshake, and how far it went. */
struct secure_step {
    struct session *session;
    const struct stream_handshake *handshake;
    enum tls_progress progress;
};

static void run_step(void *arg)
{
    struct secure_step *step = arg;

    step->progress = step->handshake->go_on(step->session);
}

/* OpenSSL works on the worker's own stack; with scripts that it asks, it makes a fiber for them. */
static enum tls_progress take_step(struct secure_step *step)
{
    if (step->session->listen->tls_hooks != NULL) {
        run_step(step);
    } else {
        fiber_call_on_main(run_step, step);
    }
    return step->progress;
}

/* The loop asks again when the client spoke, or a script of the handshake has ended. */
static enum wait_result wait_for_more(struct conn *conn, uint64_t deadline_ms)
{
    conn->input_wait.is_signalled = false;
    if (!conn_watch(conn)) {
        conn_fail(conn, errno);
        return WAIT_CANCELLED;
    }
    return fiber_wait(&conn->input_wait, deadline_ms);
}

/* NULL, or why there is no TLS. A connection that was left in the middle of it can say nothing any
 * more. MAY WAIT. */
static const char *shake_hands(struct session *session, uint64_t deadline_ms)
{
    struct secure_step step = {.session = session, .handshake = session->server->main->handshake};
    struct conn *conn = session->conn;

    for (;;) {
        switch (take_step(&step)) {
        case TLS_DONE:
            session->is_secure = true;
            return step.handshake->accepts_client(session) ? NULL : "handshake failed";
        case TLS_PLAIN:
        case TLS_FAILED:
            return "handshake failed";
        case TLS_MORE:
            break;
        }
        switch (wait_for_more(conn, deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            conn_fail(conn, ETIMEDOUT);
            return "timeout";
        case WAIT_CANCELLED:
            conn_fail(conn, ECANCELED);
            return "aborted";
        }
    }
}

static const char *why_not(const struct session *session)
{
    const struct stream_handshake *handshake = session->server->main->handshake;
    const struct conn *conn = session->conn;

    if (handshake == NULL || !handshake->is_possible(session)) {
        log_error(&session->log, 0, "ssl not configured for this server");
        return "ssl not configured for this server";
    }
    if (conn->is_broken || conn->is_input_closed) {
        return "closed";
    }
    if (conn->input_wait.waiter != NULL) {
        return "socket busy reading";
    }
    return conn->output_wait.waiter != NULL ? "socket busy writing" : NULL;
}

/* sock:serversslhandshake(): true; or nil and a reason. What was said in the clear and not sent yet
 * goes first. */
static int server_handshake(lua_State *L, struct script_thread *thread)
{
    struct stream_lua *lua = stream_lua_check(L, thread);
    struct session *session = lua->session;

    luaL_checktype(L, 1, LUA_TTABLE);
    if (!lua->has_socket) {
        return luaL_error(L, "bad request");
    }
    if (lua->source.is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    if (!session->is_secure) {
        uint64_t deadline_ms = clock_now.now_ms + script_socket_connect_timeout(L, thread);
        const char *reason = why_not(session);

        if (reason == NULL) {
            lua->source.is_shaking = true;
            if (conn_wait_output(session->conn, 1, deadline_ms) == WAIT_TIMED_OUT) {
                reason = "timeout";
            } else {
                reason = shake_hands(session, deadline_ms);
            }
            lua->source.is_shaking = false;
            script_resumed(thread);
        }
        if (reason != NULL) {
            return script_fail(L, reason);
        }
    }
    lua_pushboolean(L, true);
    return 1;
}

static const struct script_row handshake_row = {"serversslhandshake", server_handshake,
                                                SECURE_PHASES, true};

void stream_lua_push_handshake(lua_State *L)
{
    script_push_function(L, &handshake_row);
}
