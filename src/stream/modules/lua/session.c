/* Sessions as subjects of Lua. */
#include "base/clock.h"
#include "lua/values/variables.h"
#include "lua/vm/library.h"
#include "lua/vm/life.h"
#include "server/generation.h"
#include "shared/upstream/attempts.h"
#include "stream/modules/lua/lua.h"

struct settings_key stream_lua_main_key;
struct settings_key stream_lua_key;

static enum fiber_started stream_lua_session_start(struct script_subject *subject,
                                                   void (*run)(void *), void *arg,
                                                   struct fiber_handle *handle)
{
    struct session *session = container_of(subject, struct stream_lua, subject)->session;

    if (capacity.requests != UINT32_MAX && fiber_pool_left() <= capacity.reserve) {
        counters_mine->limited++;
        log_error(&session->log, 0, "too many threads are at work: worker_requests");
        return FIBER_NO_STACK;
    }
    return fiber_start_joinable(run, arg, handle);
}

static struct variable_env *variables(struct script_subject *subject)
{
    return &container_of(subject, struct stream_lua, subject)->session->env;
}

static unsigned hops(struct script_subject *subject)
{
    const struct session *session = container_of(subject, struct stream_lua, subject)->session;

    return session->conn != NULL ? conn_hops(session->conn) : 0;
}

static struct conn *client(struct script_subject *subject)
{
    return container_of(subject, struct stream_lua, subject)->session->conn;
}

static struct ssl_st *ssl(struct script_subject *subject)
{
    const struct conn *conn = client(subject);

    return conn == NULL ? NULL : tls_ssl(conn);
}

static struct script_backend *backend(struct script_subject *subject)
{
    return &container_of(subject, struct stream_lua, subject)->backend;
}

static struct ssl_st *upstream_ssl(struct script_subject *subject)
{
    return backend(subject)->ssl;
}

static struct str group_name(struct script_subject *subject)
{
    const struct vec *attempts =
        &container_of(subject, struct stream_lua, subject)->session->attempts;

    return attempts->count == 0 ? STR("")
                                : vec_at(attempts, struct attempt, attempts->count - 1)->group;
}

/* As lines of the session itself have it. */
static void whom(struct script_subject *subject, struct writer *out)
{
    subject->log->describe(subject->log, out);
}

const struct script_subject_kind stream_lua_kind = {.name = "stream",
                                                    .start = stream_lua_session_start,
                                                    .variables = variables,
                                                    .client = client,
                                                    .ssl = ssl,
                                                    .upstream_ssl = upstream_ssl,
                                                    .backend = backend,
                                                    .whom = whom,
                                                    .group_name = group_name,
                                                    .hops = hops};

static void session_ends(void *arg)
{
    struct stream_lua *lua = arg;

    timer_remove(&lua->leaving);
    script_subject_end(&lua->subject);
}

/* lua_code_cache off: one of its own, so that all code is read again. When that fails the shared
 * one will do. */
static struct script_vm *vm_for(struct session *session)
{
    const struct stream_lua_main *main = stream_settings(session->server, &stream_lua_main_key);
    struct script_vm *own = NULL;

    if (!stream_lua_settings_of(session)->script.code_cache) {
        own = script_vm_private(&main->script.options, &session->log);
    }
    return own != NULL ? own : main->script.vm;
}

struct stream_lua *stream_lua_of(struct session *session)
{
    struct stream_lua *lua = session_data(session, &stream_lua_key, sizeof(*lua));

    if (!lua->has_begun) {
        lua->has_begun = true;
        lua->session = session;
        stream_lua_init_input(lua);
        script_subject_begin(&lua->subject, &stream_lua_kind, vm_for(session), &session->log);
        arena_on_free(&session->arena, session_ends, lua);
    }
    lua->subject.settings = &stream_lua_settings_of(session)->script;
    return lua;
}

struct stream_lua *stream_lua_check(lua_State *L, const struct script_thread *thread)
{
    if (thread == NULL || thread->subject->kind != &stream_lua_kind) {
        luaL_error(L, "no request found");
    }
    return container_of(thread->subject, struct stream_lua, subject);
}

/* Phases whose end concerns the work alone that they are asked about. */
#define ON_BEHALF (SCRIPT_BALANCER | SCRIPT_PROXY_CERTIFICATE | SCRIPT_PROXY_VERIFY)

/* ngx.exit: of a session it says how this continues; elsewhere the thread ends. */
static int do_exit(lua_State *L, struct script_thread *thread)
{
    luaL_checktype(L, 1, LUA_TNUMBER);
    int code = (int) lua_tonumber(L, 1);

    script_demand_leavable(L);
    thread->subject->exit_code = code;
    if (thread->subject->kind == &stream_lua_kind && (thread->phase & ON_BEHALF) == 0) {
        struct stream_lua *lua = container_of(thread->subject, struct stream_lua, subject);

        script_demand_abortable(L, thread);
        lua->exit_code = code;
        lua->has_exit = true;
    }
    if ((thread->phase & SCRIPT_EXIT_RETURNS) != 0) {
        return 0;
    }
    script_leave(thread, SCRIPT_LEFT);
}

#define EXIT_PHASES (SCRIPT_WAITING | SCRIPT_BALANCER | SCRIPT_SESSION_STORE)

static const struct script_row rows[] = {{"exit", do_exit, EXIT_PHASES, false}, {0}};

/* ---- what session.lua asks by FFI ---- */

/* The session of the running thread; NULL: *result says why not. */
static struct session *running_session(int *result)
{
    const struct script_thread *thread = script_running();

    *result = thread == NULL || thread->phase == SCRIPT_INIT ? SCRIPT_VARIABLE_NO_REQUEST
                                                             : SCRIPT_VARIABLE_BAD_CONTEXT;
    if (thread == NULL || thread->subject->kind != &stream_lua_kind) {
        return NULL;
    }
    return container_of(thread->subject, struct stream_lua, subject)->session;
}

int stream_lua_ffi_status(void)
{
    int result;
    const struct session *session = running_session(&result);

    return session == NULL ? result : session->status;
}

int stream_lua_ffi_status_set(int status)
{
    int result;
    struct session *session = running_session(&result);

    if (session == NULL) {
        return result;
    }
    session->status = (uint16_t) status;
    return SCRIPT_VARIABLE_OK;
}

double stream_lua_ffi_start_time(void)
{
    int result;
    const struct session *session = running_session(&result);

    if (session == NULL) {
        return result == SCRIPT_VARIABLE_NO_REQUEST ? -1 : 0;
    }
    uint64_t age_ms = clock_now.now_ms - session->start_ms;
    return (double) clock_now.seconds + (double) clock_now.milliseconds / 1000 -
           (double) age_ms / 1000;
}

SCRIPT_TEXT(stream_lua_library, "src/stream/modules/lua/session.lua")

void stream_lua_session_add(lua_State *L)
{
    script_add(L, rows);
    script_text_run(L, "ngx.session", SCRIPT_TEXT_OF(stream_lua_library), 0);
}
