/* Functions that Lua code can call, and the one door that they are called through. */
#include "lua/vm/function.h"

#include <string.h>

void script_demand(lua_State *L, const struct script_thread *thread, uint32_t phases)
{
    if ((thread->phase & phases) == 0) {
        if (thread->phase == SCRIPT_INIT) {
            luaL_error(L, "no request found");
        }
        luaL_error(L, "API disabled in the context of %s", script_phase_text(thread->phase));
    }
}

int script_fail(lua_State *L, const char *reason)
{
    lua_pushnil(L);
    lua_pushstring(L, reason);
    return 2;
}

/* What functions say in init_by_lua, where there is no request: OpenResty has three texts. */
static const char *nobody_text(const char *name)
{
    static const char *const of_objects[] = {"say",
                                             "print",
                                             "eof",
                                             "flush",
                                             "exec",
                                             "redirect",
                                             "location.capture",
                                             "location.capture_multi"};
    static const char *const of_bodies[] = {"req.read_body", "req.get_body_data",
                                            "req.discard_body", "req.get_body_file"};

    for (size_t i = 0; i < sizeof(of_objects) / sizeof(of_objects[0]); i++) {
        if (strcmp(name, of_objects[i]) == 0) {
            return "no request object found";
        }
    }
    for (size_t i = 0; i < sizeof(of_bodies) / sizeof(of_bodies[0]); i++) {
        if (strcmp(name, of_bodies[i]) == 0) {
            return "request object not found";
        }
    }
    return "no request found";
}

static int call_row(lua_State *L)
{
    const struct script_row *row = lua_touserdata(L, lua_upvalueindex(1));
    struct script_thread *running = script_running();
    struct script_thread *thread = running != NULL ? running : script_nobody(script_vm_of(L));

    if (row->phases != 0) {
        if (thread->phase == SCRIPT_INIT && (row->phases & SCRIPT_INIT) == 0) {
            return luaL_error(L, nobody_text(row->name));
        }
        if ((row->phases & SCRIPT_ARGUMENTS_FIRST) == 0) {
            script_demand(L, thread, row->phases);
        }
    }
    if (!row->waits || running == NULL) {
        return row->run(L, thread);
    }
    if (thread->subject->vm->is_in_hook) {
        return luaL_error(L, "attempt to yield across C-call boundary");
    }
    thread->at = L;
    int results = row->run(L, thread);
    script_resumed(thread);
    return results;
}

void script_push_closure(lua_State *L, const struct script_row *row, int count)
{
    lua_pushlightuserdata(L, (void *) row);
    lua_insert(L, -1 - count);
    lua_pushcclosure(L, call_row, 1 + count);
}

void script_push_function(lua_State *L, const struct script_row *row)
{
    script_push_closure(L, row, 0);
}

/* Makes the tables of a dotted name; gives the last part, its table being on top. */
static const char *find_table(lua_State *L, const char *name)
{
    const char *dot;

    lua_pushvalue(L, -1);
    while ((dot = strchr(name, '.')) != NULL) {
        lua_pushlstring(L, name, (size_t) (dot - name));
        lua_rawget(L, -2);
        if (lua_isnil(L, -1)) {
            lua_pop(L, 1);
            lua_newtable(L);
            lua_pushlstring(L, name, (size_t) (dot - name));
            lua_pushvalue(L, -2);
            lua_rawset(L, -4);
        }
        lua_remove(L, -2);
        name = dot + 1;
    }
    return name;
}

void script_add(lua_State *L, const struct script_row *rows)
{
    for (const struct script_row *row = rows; row->name != NULL; row++) {
        const char *name = find_table(L, row->name);

        lua_pushstring(L, name);
        script_push_function(L, row);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
}

void script_preload(lua_State *L, const char *name, lua_CFunction open)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, open);
    lua_setfield(L, -2, name);
    lua_pop(L, 2);
}
