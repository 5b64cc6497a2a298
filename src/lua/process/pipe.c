/* The module ngx.pipe: programs that scripts start, speak with and wait for. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "lua/process/child.h"
#include "lua/process/process.h"
#include "lua/vm/function.h"

#define TYPE "ngx.pipe"
#define TIMEOUT_MS 10000
#define TIMEOUT_MAX_MS 4294967295.0
#define BUFFER_SIZE 4096
#define INPUT_MAX (64u << 20) /* bytes of a line, or of all, that are gathered */
#define SPAWN_PHASES (SCRIPT_ALL & ~SCRIPT_INIT)

static struct child *check_child(lua_State *L)
{
    return luaL_checkudata(L, 1, TYPE);
}

static int fail_errno(lua_State *L, int error)
{
    return script_fail(L, strerror(error));
}

/* What an operation that did not succeed gives. */
static int fail(lua_State *L, enum child_result result)
{
    switch (result) {
    case CHILD_CLOSED:
        return script_fail(L, "closed");
    case CHILD_TIMED_OUT:
        return script_fail(L, "timeout");
    case CHILD_CANCELLED:
        return script_fail(L, "aborted");
    case CHILD_FAILED:
    case CHILD_DONE:
        break;
    }
    return fail_errno(L, errno);
}

/* ---- spawn ---- */

/* A list of texts as C has it, in a userdata that is pushed; NULL: one is no text, at *bad. */
static char **push_list(lua_State *L, int index, int *bad)
{
    int count = (int) lua_objlen(L, index);
    char **list = lua_newuserdata(L, ((size_t) count + 1) * sizeof(*list));

    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        if (!lua_isstring(L, -1)) {
            *bad = i;
            return NULL;
        }
        list[i - 1] = (char *) (uintptr_t) lua_tostring(L, -1);
        lua_rawseti(L, index, i); /* where it was a number: the text stays alive there */
    }
    list[count] = NULL;
    return list;
}

/* The number at an index, which may be nil. What is less than a millisecond is one: 0 means none.
 */
static void set_timeout(lua_State *L, int index, struct child_end *end, const char *name)
{
    if (lua_isnoneornil(L, index)) {
        return;
    }
    lua_Number ms = lua_tonumber(L, index);

    if (lua_type(L, index) != LUA_TNUMBER || !(ms >= 0 && ms <= TIMEOUT_MAX_MS)) {
        luaL_error(L, "bad %s option", name);
    }
    end->timeout_ms = ms > 0 && ms < 1 ? 1 : (uint64_t) ms;
}

static void read_timeout(lua_State *L, struct child_end *end, const char *name)
{
    lua_getfield(L, 2, name);
    set_timeout(L, lua_gettop(L), end, name);
    lua_pop(L, 1);
}

/* The second argument. What it says of the environment is left on the stack. */
static void read_options(lua_State *L, struct child *child, struct child_program *program)
{
    int bad = 0;

    if (lua_isnoneornil(L, 2)) {
        return;
    }
    if (!lua_istable(L, 2)) {
        luaL_error(L, "bad opts arg: table expected, got %s", luaL_typename(L, 2));
    }
    lua_getfield(L, 2, "merge_stderr");
    program->merges_stderr = lua_toboolean(L, -1);
    lua_getfield(L, 2, "buffer_size");
    if (!lua_isnil(L, -1)) {
        lua_Number size = lua_tonumber(L, -1);

        if (!(size >= 1 && size <= INPUT_MAX)) {
            luaL_error(L, "bad buffer_size option");
        }
        child->buffer_size = (size_t) size;
    }
    read_timeout(L, &child->stdin_end, "write_timeout");
    read_timeout(L, &child->stdout_end, "stdout_read_timeout");
    read_timeout(L, &child->stderr_end, "stderr_read_timeout");
    read_timeout(L, &child->life, "wait_timeout");
    lua_getfield(L, 2, "environ");
    if (lua_isnil(L, -1)) {
        return;
    }
    if (!lua_istable(L, -1)) {
        luaL_error(L, "bad environ option: table expected, got %s", luaL_typename(L, -1));
    }
    int index = lua_gettop(L);
    program->environ = push_list(L, index, &bad);
    if (program->environ == NULL) {
        luaL_error(
            L,
            "bad value at index %d of environ option: string in \"name=value\" format expected, got %s",
            bad, luaL_typename(L, -1));
    }
    for (int i = 0; program->environ[i] != NULL; i++) {
        if (strchr(program->environ[i], '=') == NULL || *program->environ[i] == '=') {
            luaL_error(
                L,
                "bad value at index %d of environ option: string in \"name=value\" format expected, got \"%s\"",
                i + 1, program->environ[i]);
        }
    }
}

static int spawn(lua_State *L, struct script_thread *thread)
{
    static char shell[] = "/bin/sh", dash_c[] = "-c";
    struct child_program program = {0};
    const char *failed;
    int bad = 0;

    (void) thread;
    lua_settop(L, 2);
    struct child *child = lua_newuserdata(L, sizeof(*child)); /* 3 */

    *child = (struct child){.buffer_size = BUFFER_SIZE};
    child->stdin_end.source.fd = child->stdout_end.source.fd = -1;
    child->stderr_end.source.fd = child->life.source.fd = -1;
    child->stdin_end.timeout_ms = child->stdout_end.timeout_ms = TIMEOUT_MS;
    child->stderr_end.timeout_ms = child->life.timeout_ms = TIMEOUT_MS;
    if (lua_type(L, 1) == LUA_TSTRING) {
        char **args = lua_newuserdata(L, 4 * sizeof(*args));

        args[0] = shell;
        args[1] = dash_c;
        args[2] = (char *) (uintptr_t) lua_tostring(L, 1);
        args[3] = NULL;
        program.args = args;
    } else if (!lua_istable(L, 1)) {
        return luaL_error(L, "bad args arg: table expected, got %s", luaL_typename(L, 1));
    } else if (lua_objlen(L, 1) == 0) {
        return luaL_error(L, "bad args arg: non-empty table expected");
    } else {
        program.args = push_list(L, 1, &bad);
        if (program.args == NULL) {
            return luaL_error(L, "bad args arg: string expected at index %d, got %s", bad,
                              luaL_typename(L, -1));
        }
    }
    read_options(L, child, &program);
    if (!child_start(child, &program, &failed)) {
        lua_pushnil(L);
        lua_pushfstring(L, "%s() failed: %s", failed, strerror(errno));
        return 2;
    }
    lua_settop(L, 3);
    luaL_getmetatable(L, TYPE);
    lua_setmetatable(L, 3);
    return 1;
}

/* ---- the child ---- */

static int pid(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    lua_pushinteger(L, check_child(L)->pid);
    return 1;
}

static int set_timeouts(lua_State *L, struct script_thread *thread)
{
    static const char *const names[] = {"write_timeout", "stdout_read_timeout",
                                        "stderr_read_timeout", "wait_timeout"};
    struct child *child = check_child(L);
    struct child_end *const ends[] = {&child->stdin_end, &child->stdout_end, &child->stderr_end,
                                      &child->life};

    (void) thread;
    for (int i = 0; i < 4; i++) {
        set_timeout(L, i + 2, ends[i], names[i]);
    }
    return 0;
}

static int kill_child(lua_State *L, struct script_thread *thread)
{
    struct child *child = check_child(L);

    (void) thread;
    if (lua_type(L, 2) != LUA_TNUMBER) {
        return luaL_error(L, "bad signal value: number expected, got %s", luaL_typename(L, 2));
    }
    if (child_look(child)) {
        return script_fail(L, "exited");
    }
    if (kill(child->pid, (int) lua_tointeger(L, 2)) != 0) {
        return errno == EINVAL ? script_fail(L, "invalid signal") : fail_errno(L, errno);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int wait_child(lua_State *L, struct script_thread *thread)
{
    struct child *child = check_child(L);

    (void) thread;
    if (child->is_reported) {
        return script_fail(L, "exited");
    }
    if (child->life.is_busy) {
        return script_fail(L, "pipe busy waiting");
    }
    enum child_result result = child_wait(child);

    if (result != CHILD_DONE) {
        return fail(L, result);
    }
    bool has_exited = WIFEXITED(child->status);
    int code = has_exited ? WEXITSTATUS(child->status) : WTERMSIG(child->status);

    child_report(child);
    lua_pushboolean(L, has_exited && code == 0);
    lua_pushstring(L, has_exited ? "exit" : "signal");
    lua_pushinteger(L, code);
    return 3;
}

static int shut_down(lua_State *L, struct script_thread *thread)
{
    static const char *const names[] = {"stdin", "stdout", "stderr", NULL};
    struct child *child = check_child(L);
    struct child_end *const ends[] = {&child->stdin_end, &child->stdout_end, &child->stderr_end};
    const char *name = lua_tostring(L, 2);
    int which = 0;

    (void) thread;
    while (names[which] != NULL && (name == NULL || strcmp(names[which], name) != 0)) {
        which++;
    }
    if (names[which] == NULL) {
        return luaL_error(L, "bad shutdown arg: %s", name != NULL ? name : luaL_typename(L, 2));
    }
    if (which == 2 && child->is_merged) {
        return script_fail(L, "merged to stdout");
    }
    if (child->is_reported) {
        return script_fail(L, "closed");
    }
    child_end_close(ends[which]);
    lua_pushboolean(L, true);
    return 1;
}

/* ---- writing ---- */

/* A piece of what is written: pushed as one text. */
static void push_data(lua_State *L, int index)
{
    int type = lua_type(L, index);

    if (type == LUA_TSTRING || type == LUA_TNUMBER) {
        lua_pushvalue(L, index);
        lua_tostring(L, -1);
        return;
    }
    if (type != LUA_TTABLE) {
        luaL_error(L, "bad data arg: string, number, or table expected, got %s",
                   lua_typename(L, type == LUA_TLIGHTUSERDATA ? LUA_TUSERDATA : type));
    }
    int count = (int) lua_objlen(L, index);

    lua_pushliteral(L, "");
    for (int i = 1; i <= count; i++) {
        luaL_checkstack(L, 3, "the table is nested too deeply");
        lua_rawgeti(L, index, i);
        push_data(L, lua_gettop(L));
        lua_remove(L, -2);
        lua_concat(L, 2);
    }
}

static int write_child(lua_State *L, struct script_thread *thread)
{
    struct child *child = check_child(L);
    size_t written;

    lua_settop(L, 2);
    push_data(L, 2);
    struct str data = script_check_str(L, 3);

    if (child->stdin_end.source.fd < 0) {
        return script_fail(L, "closed");
    }
    if (child->stdin_end.is_busy) {
        return script_fail(L, "pipe busy writing");
    }
    enum child_result result = child_write(&child->stdin_end, data, &written);

    if (result == CHILD_FAILED) {
        int error = errno;

        log_error(thread->subject->log, error, "lua pipe write data error pipe:%lX",
                  (unsigned long) (uintptr_t) child);
        return error == EPIPE ? script_fail(L, "closed") : fail_errno(L, error);
    }
    if (result != CHILD_DONE) {
        return fail(L, result);
    }
    lua_pushinteger(L, (lua_Integer) written);
    return 1;
}

/* ---- reading ---- */

/* The end that a method reads; NULL: a reason was pushed. */
static struct child_end *readable(lua_State *L, bool is_stderr)
{
    struct child *child = check_child(L);
    struct child_end *end = is_stderr ? &child->stderr_end : &child->stdout_end;

    if (is_stderr && child->is_merged) {
        script_fail(L, "merged to stdout");
        return NULL;
    }
    if (end->is_busy) {
        script_fail(L, "pipe busy reading");
        return NULL;
    }
    if (child->is_reported || (end->source.fd < 0 && child_input(end).len == 0)) {
        script_fail(L, "closed");
        return NULL;
    }
    return end;
}

static size_t size_of(const lua_State *L)
{
    return check_child((lua_State *) (uintptr_t) L)->buffer_size;
}

/* Takes the first bytes, of which `shown` are given. */
static int give(lua_State *L, struct child_end *end, size_t shown, size_t used)
{
    lua_pushlstring(L, child_input(end).data, shown);
    end->taken += used;
    return 1;
}

/* nil, the reason, and what came so far. */
static int give_up(lua_State *L, struct child_end *end, enum child_result result)
{
    fail(L, result);
    give(L, end, child_input(end).len, child_input(end).len);
    return 3;
}

static int read_all(lua_State *L, bool is_stderr)
{
    struct child_end *end = readable(L, is_stderr);

    if (end == NULL) {
        return 2;
    }
    uint64_t deadline_ms = child_deadline(end);
    enum child_result result;

    do {
        result = child_input(end).len > INPUT_MAX ? CHILD_CLOSED
                                                  : child_read_more(end, size_of(L), deadline_ms);
    } while (result == CHILD_DONE);
    return result == CHILD_CLOSED ? give(L, end, child_input(end).len, child_input(end).len)
                                  : give_up(L, end, result);
}

static int read_line(lua_State *L, bool is_stderr)
{
    struct child_end *end = readable(L, is_stderr);
    size_t looked = 0;

    if (end == NULL) {
        return 2;
    }
    uint64_t deadline_ms = child_deadline(end);

    for (;;) {
        struct str input = child_input(end);
        const char *line_end =
            input.len == looked ? NULL : memchr(input.data + looked, '\n', input.len - looked);

        if (line_end != NULL) {
            size_t len = (size_t) (line_end - input.data);
            size_t shown = len > 0 && input.data[len - 1] == '\r' ? len - 1 : len;

            return give(L, end, shown, len + 1);
        }
        looked = input.len;
        enum child_result result =
            looked > INPUT_MAX ? CHILD_CLOSED : child_read_more(end, size_of(L), deadline_ms);

        if (result != CHILD_DONE) {
            return give_up(L, end, result);
        }
    }
}

static int read_bytes(lua_State *L, bool is_stderr)
{
    lua_Number wanted = lua_tonumber(L, 2);

    if (lua_type(L, 2) != LUA_TNUMBER || !(wanted >= 0 && wanted <= INPUT_MAX)) {
        return luaL_error(L, "bad len argument");
    }
    size_t size = (size_t) wanted;

    if (size == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    struct child_end *end = readable(L, is_stderr);

    if (end == NULL) {
        return 2;
    }
    uint64_t deadline_ms = child_deadline(end);

    while (child_input(end).len < size) {
        enum child_result result = child_read_more(end, size_of(L), deadline_ms);

        if (result != CHILD_DONE) {
            return give_up(L, end, result);
        }
    }
    return give(L, end, size, size);
}

static int read_any(lua_State *L, bool is_stderr)
{
    lua_Number most = lua_tonumber(L, 2);

    if (lua_type(L, 2) != LUA_TNUMBER || !(most >= 1)) {
        return luaL_error(L, "bad max argument");
    }
    struct child_end *end = readable(L, is_stderr);

    if (end == NULL) {
        return 2;
    }
    if (child_input(end).len == 0) {
        enum child_result result = child_read_more(end, size_of(L), child_deadline(end));

        if (result != CHILD_DONE) {
            return fail(L, result);
        }
    }
    size_t size = child_input(end).len;

    if (size > most) {
        size = (size_t) most;
    }
    return give(L, end, size, size);
}

#define READER(name)                                                                               \
    static int stdout_##name(lua_State *L, struct script_thread *thread)                           \
    {                                                                                              \
        (void) thread;                                                                             \
        return name(L, false);                                                                     \
    }                                                                                              \
    static int stderr_##name(lua_State *L, struct script_thread *thread)                           \
    {                                                                                              \
        (void) thread;                                                                             \
        return name(L, true);                                                                      \
    }
READER(read_all)
READER(read_line)
READER(read_bytes)
READER(read_any)

static const struct script_row methods[] = {
    {"pid", pid, 0, false},
    {"set_timeouts", set_timeouts, 0, false},
    {"kill", kill_child, 0, false},
    {"wait", wait_child, SCRIPT_WAITING, .waits = true},
    {"shutdown", shut_down, 0, false},
    {"write", write_child, SCRIPT_WAITING, .waits = true},
    {"stdout_read_all", stdout_read_all, SCRIPT_WAITING, .waits = true},
    {"stdout_read_line", stdout_read_line, SCRIPT_WAITING, .waits = true},
    {"stdout_read_bytes", stdout_read_bytes, SCRIPT_WAITING, .waits = true},
    {"stdout_read_any", stdout_read_any, SCRIPT_WAITING, .waits = true},
    {"stderr_read_all", stderr_read_all, SCRIPT_WAITING, .waits = true},
    {"stderr_read_line", stderr_read_line, SCRIPT_WAITING, .waits = true},
    {"stderr_read_bytes", stderr_read_bytes, SCRIPT_WAITING, .waits = true},
    {"stderr_read_any", stderr_read_any, SCRIPT_WAITING, .waits = true},
    {0},
};
static const struct script_row functions[] = {{"spawn", spawn, SPAWN_PHASES, false}, {0}};

static int collect(lua_State *L)
{
    child_free(lua_touserdata(L, 1));
    return 0;
}

static int open_pipe(lua_State *L)
{
    luaL_newmetatable(L, TYPE);
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_newtable(L);
    script_add(L, methods);
    lua_setfield(L, -2, "__index");
    lua_newtable(L);
    script_add(L, functions);
    return 1;
}

void script_pipe_add(lua_State *L)
{
    script_preload(L, "ngx.pipe", open_pipe);
}
