/* What Lua says to a client. The arguments are gone through twice: for the length, and for the
 * text. */
#include "lua/vm/said.h"

#include <lauxlib.h>
#include <string.h>

#define DEPTH_MOST 200 /* of tables in tables */

struct walk {
    lua_State *L;
    int argument; /* that is looked at, for errors */
    unsigned depth;
    size_t len;      /* so far */
    char *at;        /* where the text goes; NULL: its length alone is wanted */
    const char *end; /* where the space for the text ends */
};

static void add(struct walk *walk, const char *text, size_t len)
{
    walk->len += len;
    if (walk->at != NULL) {
        if (len > (size_t) (walk->end - walk->at)) { /* a finalizer has changed a table meanwhile */
            luaL_error(walk->L, "table has changed");
        }
        memcpy(walk->at, text, len);
        walk->at += len;
    }
}

/* The length of a table that is an array, with holes; else an error is thrown. */
static int length_of(struct walk *walk, int index)
{
    lua_State *L = walk->L;
    int length = 0;

    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;

        if (!(key >= 1 && key <= 1 << 30) || (lua_Number) (int) key != key) {
            luaL_argerror(L, walk->argument, "non-array table found");
        }
        length = (int) key > length ? (int) key : length;
        lua_pop(L, 1);
    }
    return length;
}

static void script_said_refuse(const struct walk *walk, int index)
{
    const char *type = luaL_typename(walk->L, index);
    const char *message =
        walk->depth != 0
            ? lua_pushfstring(walk->L, "bad data type %s found", type)
            : lua_pushfstring(
                  walk->L,
                  "string, number, boolean, nil, ngx.null, or array table expected, but got %s",
                  type);

    luaL_argerror(walk->L, walk->argument, message);
}

static void add_value(struct walk *walk, int index);

static void add_table(struct walk *walk, int index)
{
    lua_State *L = walk->L;
    int length = length_of(walk, index);

    luaL_checkstack(L, 4, "too many tables in tables");
    if (walk->depth++ == DEPTH_MOST) {
        luaL_argerror(L, walk->argument, "too many tables in tables");
    }
    for (int i = 1; i <= length; i++) {
        lua_rawgeti(L, index, i);
        add_value(walk, lua_gettop(L));
        lua_pop(L, 1);
    }
    walk->depth--;
}

static void add_value(struct walk *walk, int index)
{
    lua_State *L = walk->L;
    const char *text;
    size_t len;

    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        if (lua_tonumber(L, index) == 0) { /* -0, too */
            add(walk, "0", 1);
            return;
        }
        /* fall through */
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &len);
        add(walk, text, len);
        return;
    case LUA_TNIL:
        add(walk, "nil", 3);
        return;
    case LUA_TBOOLEAN:
        add(walk, lua_toboolean(L, index) ? "true" : "false", lua_toboolean(L, index) ? 4 : 5);
        return;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, index) != NULL) {
            break;
        }
        add(walk, "null", 4);
        return;
    case LUA_TTABLE:
        add_table(walk, index);
        return;
    default:
        break;
    }
    script_said_refuse(walk, index);
}

static void add_all(struct walk *walk, int count, bool ends_line)
{
    for (walk->argument = 1; walk->argument <= count; walk->argument++) {
        add_value(walk, walk->argument);
    }
    if (ends_line) {
        add(walk, "\n", 1);
    }
}

struct str script_said_in(lua_State *L, bool ends_line, char *room, size_t size)
{
    struct walk walk = {.L = L};
    int count = lua_gettop(L);
    struct str text;

    if (count == 1 && lua_type(L, 1) == LUA_TSTRING) {
        text.data = lua_tolstring(L, 1, &text.len);
        if (!ends_line) {
            return text;
        }
        if (text.len < size) {
            memcpy(room, text.data, text.len);
            room[text.len] = '\n';
            return (struct str){room, text.len + 1};
        }
    }
    luaL_checkstack(L, 8, "too many arguments");
    add_all(&walk, count, ends_line);
    text.len = walk.len;
    walk.at = room != NULL && text.len <= size ? room : lua_newuserdata(L, text.len);
    walk.end = walk.at + text.len;
    text.data = walk.at;
    add_all(&walk, count, ends_line);
    text.len = (size_t) (walk.at - text.data);
    return text;
}

struct str script_said(lua_State *L, bool ends_line)
{
    return script_said_in(L, ends_line, NULL, 0);
}
