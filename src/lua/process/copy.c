/* Values of one VM as values of another: nil, booleans, numbers, strings and tables of them. */
#include "lua/process/copy.h"

static const char *const type_names[] = {
    [LUA_TFUNCTION] = "LUA_TFUNCTION",
    [LUA_TUSERDATA] = "LUA_TUSERDATA",
    [LUA_TTHREAD] = "LUA_TTHREAD",
    [LUA_TLIGHTUSERDATA] = "LUA_TLIGHTUSERDATA",
};

enum { CDATA = 10 }; /* lua_type of LuaJIT's FFI values */

/* A value that is no table. */
static bool copy_plain(lua_State *to, lua_State *from, int index, const char *where)
{
    int type = lua_type(from, index);
    const char *text;
    size_t len;

    switch (type) {
    case LUA_TNIL:
        lua_pushnil(to);
        return true;
    case LUA_TBOOLEAN:
        lua_pushboolean(to, lua_toboolean(from, index));
        return true;
    case LUA_TNUMBER:
        lua_pushnumber(to, lua_tonumber(from, index));
        return true;
    case LUA_TSTRING:
        text = lua_tolstring(from, index, &len);
        lua_pushlstring(to, text, len);
        return true;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(from, index) == NULL) { /* ngx.null */
            lua_pushlightuserdata(to, NULL);
            return true;
        }
        break;
    default:
        break;
    }
    if (type == CDATA) {
        lua_pushfstring(to, "unsupported Lua type in the %s", where);
    } else {
        lua_pushfstring(to, "unsupported Lua type: %s in the %s", type_names[type], where);
    }
    return false;
}

static bool copy(lua_State *to, lua_State *from, int index, int depth, const char *where)
{
    if (lua_type(from, index) != LUA_TTABLE) {
        return copy_plain(to, from, index, where);
    }
    if (depth + 1 >= SCRIPT_COPY_DEPTH) {
        lua_pushfstring(
            to, "suspicious circular references, table depth exceed max depth: %d in the %s",
            SCRIPT_COPY_DEPTH, where);
        return false;
    }
    int own = lua_gettop(to) + 1;
    int top = lua_gettop(from);

    lua_newtable(to);
    lua_pushnil(from);
    while (lua_next(from, index) != 0) {
        if (!copy(to, from, top + 1, depth + 1, where) ||
            !copy(to, from, top + 2, depth + 1, where)) {
            lua_replace(to, own);
            lua_settop(to, own);
            lua_settop(from, top);
            return false;
        }
        lua_rawset(to, own);
        lua_settop(from, top + 1);
    }
    return true;
}

bool script_copy(lua_State *to, lua_State *from, int index, const char *where)
{
    return copy(to, from, index, 0, where);
}
