/* Errors that nobody caught: the lines in the log, with the ways through all coroutines that led to
 * them. */
#include "lua/vm/failure.h"

#include <lauxlib.h>
#include <string.h>

#include "base/buf.h"
#include "lua/vm/function.h"
#include "lua/vm/memory.h"

static char
    kept_key; /* its address: {error value, ways as one text, number of them}, in the registry */

static bool runs_as_thread(const struct script_thread *thread)
{
    return script_phase_failure(thread->phase) == script_phase_failure(SCRIPT_CONTENT);
}

#define LEVELS_MAX 22 /* of a way; those further out are "..." */

/* Pushes "\n\tcontent_by_lua(nginx.conf:41):2: in function 'f'", as luaL_traceback has it. */
static void push_level(lua_State *L, lua_State *of, lua_Debug *level)
{
    lua_getinfo(of, "nSl", level);
    lua_pushfstring(L, "\n\t%s:", level->short_src);
    if (level->currentline > 0) {
        lua_pushfstring(L, "%d:", level->currentline);
        lua_concat(L, 2);
    }
    if (*level->namewhat != '\0') {
        lua_pushfstring(L, " in function '%s'", level->name);
    } else if (*level->what == 'm') {
        lua_pushliteral(L, " in main chunk");
    } else {
        lua_pushfstring(L, " in function <%s:%d>", level->short_src, level->linedefined);
    }
    lua_concat(L, 2);
}

/* Pushes the first levels of a way that has more: luaL_traceback would leave out the middle. */
static void push_levels(lua_State *L, lua_State *of, int first)
{
    lua_Debug level;

    lua_pushliteral(L, "");
    for (int i = first; i < first + LEVELS_MAX && lua_getstack(of, i, &level) != 0; i++) {
        push_level(L, of, &level);
        lua_concat(L, 2);
    }
    lua_pushliteral(L, "\n\t...");
    lua_concat(L, 2);
}

/* Adds "coroutine 1:\n\t…" to the text on top of L. */
static void add_way(lua_State *L, lua_State *of, int number, int level)
{
    lua_pushfstring(L, "\ncoroutine %d:", number);
    lua_Debug more;

    if (lua_getstack(of, level + LEVELS_MAX, &more) != 0) {
        push_levels(L, of, level);
    } else {
        luaL_traceback(L, of, NULL, level);
        lua_pushstring(L, lua_tostring(L, -1) + sizeof("stack traceback:") - 1);
        lua_remove(L, -2);
    }
    lua_concat(L, 3);
}

/* Pushes the ways that were kept for the error at index 1, and gives their number: an empty text
 * and 0 where none were. */
static int push_kept(lua_State *L)
{
    int count = 0;

    lua_pushlightuserdata(L, &kept_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_istable(L, -1)) {
        lua_rawgeti(L, -1, 1);
        if (lua_rawequal(L, -1, 1)) {
            lua_rawgeti(L, -2, 3);
            count = (int) lua_tointeger(L, -1);
            lua_rawgeti(L, -3, 2);
            lua_replace(L, -4);
            lua_pop(L, 2);
            return count;
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_pushliteral(L, "");
    return count;
}

void script_failure_keep(lua_State *L, lua_State *failed)
{
    /* As index 1, for push_kept. */
    lua_pushvalue(L, -1);
    lua_insert(L, 1);
    int count = push_kept(L);

    /* A line of the log ends there: of coroutines that are nested deeper only the number is kept.
     */
    if (lua_objlen(L, -1) < LOG_LINE_MAX) {
        add_way(L, failed, count, 0);
    }
    lua_createtable(L, 3, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, 2);
    lua_pushinteger(L, count + 1);
    lua_rawseti(L, -2, 3);
    lua_pushlightuserdata(L, &kept_key);
    lua_insert(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
    lua_remove(L, 1);
}

#define OF_PROCESS ((unsigned) SCRIPT_INIT | SCRIPT_INIT_WORKER | SCRIPT_EXIT_WORKER)

/* Errors of the chunks of a process stand alone: their lines name them at the beginning. */
static struct log log_of(const struct script_subject *subject, enum script_phase phase)
{
    struct log log = *subject->log;

    if ((phase & OF_PROCESS) != 0) {
        log.describe = NULL;
    }
    return log;
}

/* No longer than a line of the log is. Takes nothing from Lua, so that it may be called outside of
 * protected calls. */
static void script_failure_say(const struct log *log, const char *what, const char *message,
                               const char *way)
{
    static __thread char line[LOG_LINE_MAX]; /* too much for a stack */
    struct writer writer = {line, line + sizeof(line)};

    writer_printf(&writer, "%s%s%s%s", what, message != NULL ? message : "unknown reason",
                  way[0] != '\0' ? "\nstack traceback:" : "", way);
    log_write_text(log, LOG_ERROR, str_from(line, writer.at));
}

static const char *say_of(const struct script_thread *thread)
{
    bool is_stream = script_vm_is_stream(thread->subject->vm);

    if (thread->entry != thread) {
        return is_stream ? "stream lua user thread aborted: runtime error: "
                         : "lua user thread aborted: runtime error: ";
    }
    const char *failure = script_phase_failure(thread->phase);
    return is_stream && strncmp(failure, "lua entry", 9) == 0
               ? "stream lua entry thread aborted: runtime error: "
               : failure;
}

static void script_failure_say_failure(const struct script_thread *thread, const char *message,
                                       const char *way)
{
    const struct log log = log_of(thread->subject, thread->phase);

    if (message == NULL && (thread->phase & OF_PROCESS) != 0) {
        message = "unknown error";
    }
    script_failure_say(&log,
                       thread->subject->runs_file ? script_phase_failure_of_file(thread->phase)
                                                  : say_of(thread),
                       message, way);
}

enum { LEFT_MOST = 16 }; /* values of the function that failed */

/* Arguments, locals and temporary values of the function that has failed. */
static void keep_left_values(lua_State *L, struct script_thread *thread)
{
    lua_Debug level;
    int count = 0;

    if (lua_getstack(L, 1, &level) == 0) {
        return;
    }
    lua_newtable(L);
    while (count < LEFT_MOST && lua_getlocal(L, &level, count + 1) != NULL) {
        lua_rawseti(L, -2, ++count);
    }
    lua_pushinteger(L, count);
    lua_rawseti(L, -2, 0);
    thread->left_values = luaL_ref(L, LUA_REGISTRYINDEX);
}

void script_failure_restore(struct script_thread *thread)
{
    lua_State *L = thread->state;

    if (thread->left_values == LUA_NOREF) {
        return;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, thread->left_values);
    int table = lua_gettop(L);
    lua_rawgeti(L, table, 0);
    int count = (int) lua_tointeger(L, -1);
    lua_pop(L, 1);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, table, i);
        lua_insert(L, i);
        table++;
    }
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, thread->left_values);
    thread->left_values = LUA_NOREF;
}

int script_failure_seen(lua_State *L)
{
    struct script_thread *thread = script_running();
    const char *message = lua_tostring(L, 1);

    lua_settop(L, 1);
    if (thread->entry != thread) {
        keep_left_values(L, thread);
    }
    if (runs_as_thread(thread)) {
        int count = push_kept(L);

        add_way(L, L, count++, 1);
        for (const struct script_thread *parent = thread->parent; parent != NULL;
             parent = parent->parent) {
            add_way(L, parent->state, count++, 0);
        }
    } else {
        luaL_traceback(L, L, NULL, 1);
        lua_pushstring(L,
                       message != NULL ? lua_tostring(L, -1) + sizeof("stack traceback:") - 1 : "");
    }
    script_failure_say_failure(thread, message, lua_tostring(L, -1));
    thread->is_logged = true;
    lua_settop(L, 1);
    return 1;
}

void script_failure_end(struct script_thread *thread)
{
    const char *message = lua_tostring(thread->state, -1);

    thread->subject->failed_with = 500;
    if (!thread->is_logged) {
        script_failure_say_failure(thread, message, "");
    }
    if (thread->lacks_memory) {
        script_memory_collect(thread->subject->vm->state);
    }
}

void script_failure_load(struct script_subject *subject, enum script_phase phase, int status,
                         const char *message)
{
    subject->failed_with = status;
    if ((phase & OF_PROCESS) == 0) {
        script_failure_say(subject->log, "", message, "");
        return;
    }
    /* Of a process's chunks the log says which one it was instead of how its text was to be had. */
    static const char inlined[] = "failed to load inlined Lua code: ";
    static const char file[] = "failed to load external Lua file \"";
    const char *end =
        strncmp(message, file, sizeof(file) - 1) == 0 ? strstr(message, "\": ") : NULL;

    if (end != NULL) {
        message = end + 3;
    } else if (strncmp(message, inlined, sizeof(inlined) - 1) == 0) {
        message += sizeof(inlined) - 1;
    }
    const struct log log = log_of(subject, phase);
    script_failure_say(&log,
                       subject->runs_file ? script_phase_failure_of_file(phase)
                                          : script_phase_failure(phase),
                       message, "");
}
