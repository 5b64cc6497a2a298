/* What every script finds: constants, ngx.get_phase, ngx.config; and the guard of globals. */
#include "lua/vm/core.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"

#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "lua/vm/log.h"
#include "server/generation.h"

static const struct {
    const char *name;
    int value;
} constants[] = {{"OK", 0}, {"ERROR", -1}, {"AGAIN", -2}, {"DONE", -4}, {"DECLINED", -5}};

SCRIPT_TEXT(script_library_phase, "src/lua/library/phase.lua")

unsigned script_ffi_phase(void)
{
    return script_running() != NULL ? script_running()->phase : SCRIPT_INIT;
}

unsigned script_ffi_phase_number(void)
{
    return script_phase_number((enum script_phase) script_ffi_phase());
}

/* Adds ngx.get_phase and related functions to the table on top. */
static void add_phase(lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_newtable(L);
    for (unsigned phase = SCRIPT_INIT; phase <= SCRIPT_PROXY_VERIFY; phase <<= 1) {
        lua_pushstring(L, script_phase_name((enum script_phase) phase));
        lua_rawseti(L, -2, (int) phase);
    }
    script_text_run(L, "phase", SCRIPT_TEXT_OF(script_library_phase), 2);
}

static int prefix(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    script_push_str(L, script_vm_of(L)->options->generation->conf.prefix);
    return 1;
}

static int nginx_configure(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    lua_pushstring(L, CONFIGURE_ARGUMENTS);
    return 1;
}

static const struct script_row rows[] = {
    {"config.prefix", prefix, 0, false},
    {"config.nginx_configure", nginx_configure, 0, false},
    {0},
};

static void set_number(lua_State *L, const char *name, int value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* "1.31.5" as 1031005. */
static int compat_number(void)
{
    int major = 0, minor = 0, patch = 0;

    sscanf(NGINX_COMPAT_VERSION, "%d.%d.%d", &major, &minor, &patch);
    return major * 1000000 + minor * 1000 + patch;
}

static char getenv_key; /* its address: Lua's own os.getenv, in the registry */

/* os.getenv while init_by_lua runs: the values that `env` gives are not in the environment of the
 * master. */
static int get_variable(lua_State *L, struct script_thread *thread)
{
    struct str name = script_check_str(L, 1);
    const struct vec *named = &script_vm_of(L)->options->generation->core->environment;

    (void) thread;
    vec_each(const struct str, variable, named) {
        const char *equals = str_find_char(*variable, '=');

        if (equals != NULL && str_equal(str_from(variable->data, equals), name)) {
            script_push_str(L, str_from(equals + 1, variable->data + variable->len));
            return 1;
        }
    }
    lua_pushstring(L, getenv(name.data));
    return 1;
}

static const struct script_row get_variable_row = {"getenv", get_variable, 0, false};

static void replace_getenv(lua_State *L)
{
    lua_getglobal(L, "os");
    lua_pushlightuserdata(L, &getenv_key);
    lua_getfield(L, -2, "getenv");
    lua_rawset(L, LUA_REGISTRYINDEX);
    script_push_function(L, &get_variable_row);
    lua_setfield(L, -2, "getenv");
    lua_pop(L, 1);
}

void script_restore_getenv(lua_State *L)
{
    lua_getglobal(L, "os");
    lua_pushlightuserdata(L, &getenv_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, "getenv");
    lua_pop(L, 1);
}

void script_core_add(struct script_vm *vm, lua_State *L)
{
    replace_getenv(L);
    script_add(L, rows);
    add_phase(L);
    for (unsigned i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        set_number(L, constants[i].name, constants[i].value);
    }
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");

    lua_getfield(L, -1, "config");
    set_number(L, "nginx_version", compat_number());
    set_number(L, "ngx_lua_version", (int) vm->options->subsystem->api_version);
    lua_pushstring(L, vm->options->subsystem->name);
    lua_setfield(L, -2, "subsystem");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "debug");
    lua_pop(L, 1);
}

/* __newindex of the globals: what one request leaves there others find, though they had rather not.
 */
static int write_global(lua_State *L, struct script_thread *thread)
{
    const struct log *log = script_log_of(thread);

    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, 1);
    if (log->level < LOG_WARN ||
        (thread != NULL && (thread->phase & (SCRIPT_INIT | SCRIPT_INIT_WORKER)) != 0)) {
        return 0;
    }
    const char *name =
        lua_isstring(L, 2) ? (lua_pushvalue(L, 2), lua_tostring(L, -1)) : luaL_typename(L, 2);
    lua_pushfstring(
        L,
        "[lua] _G write guard:12: __newindex(): writing a global Lua variable ('%s') which may lead to race "
        "conditions between concurrent requests, so prefer the use of 'local' variables",
        name);
    luaL_traceback(L, L, lua_tostring(L, -1), 1);
    log_write_text(log, LOG_WARN, script_check_str(L, -1));
    return 0;
}

static const struct script_row write_global_row = {"__newindex", write_global, 0, false};

void script_guard_globals(lua_State *L)
{
    lua_pushvalue(L, LUA_GLOBALSINDEX);
    if (!lua_getmetatable(L, -1)) {
        lua_newtable(L);
    }
    lua_getfield(L, -1, "__newindex");
    if (lua_isnil(L, -1)) {
        script_push_function(L, &write_global_row);
        lua_setfield(L, -3, "__newindex");
    }
    lua_pop(L, 1);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}
