/* What the client of a session says to Lua: ngx.req.socket; and that it leaves:
 * lua_check_client_abort, ngx.on_abort. */
#include "base/clock.h"
#include "server/generation.h"
#include "stream/modules/lua/lua.h"
#include "stream/session/session.h"

#define INPUT_PHASES (SCRIPT_PREREAD | SCRIPT_CONTENT)

#define PEEK_BUFFER ((size_t) 4096) /* bytes of the first buffer for what is peeked at */

static bool is_checked(const struct stream_lua *lua)
{
    return lua->subject.settings->check_client_abort;
}

/* ---- clients that leave ---- */

/* The script is resumed, or ends, in a turn of the loop in which it does not run. */
static void client_has_left(struct timer *timer)
{
    struct stream_lua *lua = container_of(timer, struct stream_lua, leaving);

    if (lua->has_left) {
        return;
    }
    lua->has_left = true;
    log_info(lua->subject.log, 0, "stream client prematurely closed connection");
    if (script_abort_tell(&lua->abort, &lua->subject)) {
        return;
    }
    list_each(item, &lua->subject.threads) {
        struct script_thread *thread = container_of(item, struct script_thread, node);

        if (thread->entry == thread) {
            script_kill(thread);
        }
    }
}

static void leaves(struct stream_lua *lua)
{
    if (!lua->has_left) {
        timer_set(&lua->leaving, clock_now.now_ms);
    }
}

/* The loop has something of the client. A thread that reads finds out for itself. */
static void input_came(struct conn *conn)
{
    struct stream_lua *lua = session_data(conn->user, &stream_lua_key, 0);

    if (conn->input_wait.waiter == NULL && is_checked(lua) && conn_peer_is_gone(conn)) {
        leaves(lua);
    }
    conn_wake_input(conn);
}

static const struct conn_owner input_owner = {.input = input_came};

void stream_lua_init_input(struct stream_lua *lua)
{
    timer_init(&lua->leaving, client_has_left);
}

void stream_lua_begin_input(struct stream_lua *lua)
{
    struct conn *conn = lua->session->conn;

    script_abort_begin(&lua->abort);
    if (conn != NULL) {
        conn->owner = &input_owner;
        if (is_checked(lua)) {
            conn_watch(conn);
        }
    }
}

void stream_lua_end_input(struct stream_lua *lua)
{
    timer_remove(&lua->leaving);
    script_abort_end(&lua->abort, &lua->subject);
    if (lua->session->conn != NULL) {
        session_hold_input(lua->session);
    }
}

static int on_abort(lua_State *L, struct script_thread *thread)
{
    if (thread->subject->kind != &stream_lua_kind) {
        script_demand(L, thread, INPUT_PHASES);
    }
    return script_on_abort(L, thread, &stream_lua_check(L, thread)->abort, INPUT_PHASES);
}

/* ---- the client's bytes ---- */

static struct str input(struct script_source *source)
{
    return session_input(container_of(source, struct stream_lua, source)->session);
}

static void consume(struct script_source *source, size_t count)
{
    struct stream_lua *lua = container_of(source, struct stream_lua, source);

    lua->session->received += count;
    lua->origin.source.consume(&lua->origin.source, count);
}

static enum script_got more(struct script_source *source, size_t wanted, uint64_t timeout_ms)
{
    struct stream_lua *lua = container_of(source, struct stream_lua, source);
    enum script_got got = lua->origin.source.more(&lua->origin.source, wanted, timeout_ms);

    source->error = lua->origin.source.error;
    if ((got == SCRIPT_GOT_END || got == SCRIPT_GOT_FAILURE) && is_checked(lua)) {
        leaves(lua);
        source->error = "client aborted";
        return SCRIPT_GOT_FAILURE;
    }
    return got;
}

/* The session ends with this status, and the script with it. */
static _Noreturn void end_session(lua_State *L, struct stream_lua *lua,
                                  struct script_thread *thread, int status)
{
    script_demand_leavable(L);
    lua->exit_code = status;
    lua->has_exit = true;
    script_leave(thread, SCRIPT_LEFT);
}

/* Waits until so many bytes of the client are there, which nobody takes. Gives 0, or the status
 * that the session ends with. MAY WAIT: for preread_timeout. */
static int wait_preread(struct stream_lua *lua, size_t size)
{
    struct session *session = lua->session;
    struct conn *conn = session->conn;
    size_t most = session->server->preread_buffer_size;
    uint64_t deadline_ms = clock_now.now_ms + session->server->preread_timeout_ms;

    while (session_input(session).len < size) {
        if (size > most) {
            counters_mine->limited++;
            log_error(&session->log, 0, "preread buffer full");
            return SESSION_BAD_REQUEST;
        }
        if (conn_fill(conn, most < PEEK_BUFFER ? most : PEEK_BUFFER, most)) {
            continue;
        }
        if (conn->is_input_closed || conn->is_broken ||
            conn_wait_input(conn, deadline_ms) != WAIT_READY) {
            return SESSION_OK;
        }
    }
    return 0;
}

/* sock:peek(size): what the client has said, left for who comes after. */
static int peek(lua_State *L, struct script_thread *thread)
{
    struct stream_lua *lua = stream_lua_check(L, thread);
    lua_Number size = lua_tonumber(L, 2);

    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d",
                          lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    if (!(size >= 1) || size > 1e9) {
        return luaL_argerror(L, 2, "bad size argument");
    }
    if (lua->source.is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    if (lua->session->conn->input_wait.waiter != NULL) {
        return script_fail(L, "socket busy reading");
    }
    int status = wait_preread(lua, (size_t) size);
    script_resumed(thread);
    if (status != 0) {
        end_session(L, lua, thread, status);
    }
    lua_pushlstring(L, session_input(lua->session).data, (size_t) size);
    return 1;
}

static const struct script_row peek_row = {"peek", peek, SCRIPT_PREREAD, true};

static int req_socket(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) > 1) {
        return luaL_error(L, "expecting zero arguments, but got %d", lua_gettop(L));
    }
    script_demand(L, thread, INPUT_PHASES);
    struct stream_lua *lua = stream_lua_check(L, thread);
    struct conn *conn = lua->session->conn;
    if (conn == NULL) {
        stream_lua_push_datagrams(L, lua);
        return 1;
    }
    if (lua_toboolean(L, 1)) {
        if (lua->has_raw_socket) {
            return script_fail(L, "duplicate call");
        }
        lua->has_raw_socket = true;
    }
    if (!lua->has_socket) {
        script_conn_source_init(&lua->origin, conn, lua->subject.settings->buffer_size);
        lua->source = (struct script_source){.input = input,
                                             .consume = consume,
                                             .more = more,
                                             .conn = conn,
                                             .fails_again = true};
        lua->has_socket = true;
    }
    const struct script_face face = {.source = &lua->source, .conn = conn};
    script_socket_push(L, thread, &face);
    script_push_function(L, &peek_row);
    lua_setfield(L, -2, "peek");
    stream_lua_push_handshake(L);
    lua_setfield(L, -2, "serversslhandshake");
    return 1;
}

static const struct script_row rows[] = {
    {"req.socket", req_socket, INPUT_PHASES | SCRIPT_ARGUMENTS_FIRST, false},
    {"on_abort", on_abort, 0, false},
    {0},
};

void stream_lua_input_add(lua_State *L)
{
    script_add(L, rows);
}
