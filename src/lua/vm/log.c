/* ngx.log and print: lines of Lua in the error log. */
#include "lua/vm/log.h"

#include <string.h>

#include "lua/vm/function.h"

/* Pushes an argument as tostring would show it. */
static void push_text(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        lua_pushvalue(L, index);
        return;
    case LUA_TNIL:
        lua_pushliteral(L, "nil");
        return;
    case LUA_TBOOLEAN:
        lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
        return;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, index) == NULL) {
            lua_pushliteral(L, "null");
            return;
        }
        break;
    case LUA_TTABLE:
        if (!luaL_callmeta(L, index, "__tostring")) {
            luaL_argerror(L, index, "expected table to have __tostring metamethod");
        }
        if (!lua_isstring(L, -1)) {
            luaL_argerror(L, index, "__tostring must return a string");
        }
        return;
    default:
        break;
    }
    lua_pushfstring(L, "string, number, boolean, or nil expected, got %s", luaL_typename(L, index));
    luaL_argerror(L, index, lua_tostring(L, -1));
}

/*
 * Pushes "content_by_lua(nginx.conf:41):2: f(): ", who says it; of files the base name. Only
 * functions written in Lua have their name there, not chunks ("main") and functions of C.
 */
static void push_place(lua_State *L)
{
    lua_Debug where;

    if (lua_getstack(L, 0, &where) == 0 || lua_getstack(L, 1, &where) == 0 ||
        lua_getinfo(L, "nSl", &where) == 0) {
        lua_pushliteral(L, "?: ");
        return;
    }
    const char *slash = strrchr(where.short_src, '/');
    const char *source = slash != NULL ? slash + 1 : where.short_src;

    if (where.name != NULL && *where.name != '\0' && *where.what == 'L') {
        lua_pushfstring(L, "%s:%d: %s(): ", source, where.currentline, where.name);
    } else {
        lua_pushfstring(L, "%s:%d: ", source, where.currentline);
    }
}

/* A line of all that is on the stack. */
static int write_line(lua_State *L, struct script_thread *thread, enum log_level level)
{
    const struct log *log = script_log_of(thread);
    int last = lua_gettop(L);

    if (level > log->level) {
        return 0;
    }
    luaL_checkstack(L, last + 3, "too many arguments");
    lua_pushstring(L, script_vm_is_stream(script_vm_of(L)) ? "stream [lua] " : "[lua] ");
    push_place(L);
    for (int i = 1; i <= last; i++) {
        push_text(L, i);
    }
    lua_concat(L, lua_gettop(L) - last);
    log_write_text(log, level, script_check_str(L, -1));
    return 0;
}

const struct log *script_log_of(const struct script_thread *thread)
{
    return thread != NULL ? thread->subject->log : log_main;
}

static int lua_log(lua_State *L, struct script_thread *thread)
{
    int level = luaL_checkint(L, 1);

    if (level < LOG_STDERR || level > LOG_DEBUG) {
        lua_pushfstring(L, "bad log level: %d", level);
        return luaL_argerror(L, 1, lua_tostring(L, -1));
    }
    lua_remove(L, 1);
    return write_line(L, thread, (enum log_level) level);
}

static int lua_print(lua_State *L, struct script_thread *thread)
{
    return write_line(L, thread, LOG_NOTICE);
}

static const struct script_row log_rows[] = {{"log", lua_log, 0, false}, {0}};
static const struct script_row print_row = {"print", lua_print, 0, false};

void script_log_add(lua_State *L)
{
    static const char *const names[] = {"STDERR", "EMERG",  "ALERT", "CRIT", "ERR",
                                        "WARN",   "NOTICE", "INFO",  "DEBUG"};

    script_add(L, log_rows);
    for (int level = 0; level <= LOG_DEBUG; level++) {
        lua_pushinteger(L, level);
        lua_setfield(L, -2, names[level]);
    }
    script_push_function(L, &print_row);
    lua_setglobal(L, "print");
}
