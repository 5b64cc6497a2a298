/* Sessions as subjects of Lua. */
#include "lua/vm/life.h"
#include "server/generation.h"
#include "stream/modules/lua/lua.h"

static enum fiber_started start(struct script_subject *subject, void (*run)(void *), void *arg,
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

/* As lines of the session itself have it. */
static void whom(struct script_subject *subject, struct room *out)
{
    subject->log->describe(subject->log, out);
}

const struct script_subject_kind stream_lua_kind = {
    .name = "stream", .start = start, .variables = variables, .whom = whom, .hops = hops};

static void session_ends(void *arg)
{
    struct stream_lua *lua = arg;

    timer_remove(&lua->leaving);
    script_subject_end(&lua->subject);
}

/* lua_code_cache off: one of its own, so that all code is read anew. When that fails the shared one will do. */
static struct script_vm *vm_for(struct session *session)
{
    const struct stream_lua_main *main = stream_settings(session->server, &stream_lua_main_key);
    struct script_vm *own = NULL;

    if (!stream_lua_settings_of(session)->script.code_cache) {
        own = script_vm_private(&main->options, &session->log);
    }
    return own != NULL ? own : main->vm;
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

/* ngx.exit: of a session it says how this goes on; elsewhere the thread ends. */
static int do_exit(lua_State *L, struct script_thread *thread)
{
    luaL_checktype(L, 1, LUA_TNUMBER);
    int code = (int) lua_tonumber(L, 1);

    thread->subject->exit_code = code;
    if (thread->subject->kind == &stream_lua_kind) {
        struct stream_lua *lua = container_of(thread->subject, struct stream_lua, subject);

        script_demand_abortable(L, thread);
        lua->exit_code = code;
        lua->has_exit = true;
    }
    script_leave(thread, SCRIPT_LEFT);
}

#define EXIT_PHASES (SCRIPT_WAITING | SCRIPT_BALANCER | SCRIPT_SESSION_STORE)

static const struct script_row rows[] = {{"exit", do_exit, EXIT_PHASES, false}, {0}};

void stream_lua_session_add(lua_State *L)
{
    script_add(L, rows);
}
