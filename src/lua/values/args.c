/* Arguments of URLs and of forms as tables: read and written. */
#include "lua/values/args.h"

#include <lauxlib.h>

#include "base/text.h"
#include "lua/vm/function.h"

/* ---- reading */

/* Writes the text decoded, which takes no more room; gives the end. */
static char *script_args_decode(char *at, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '+') {
            c = ' ';
        } else if (c == '%' && text.len - i > 2) {
            int high = hex_value[(unsigned char) text.data[i + 1]];
            int low = hex_value[(unsigned char) text.data[i + 2]];

            if (high >= 0 && low >= 0) {
                c = (char) (high << 4 | low);
                i += 2;
            }
        }
        *at++ = c;
    }
    return at;
}

/* The text as it is, where nothing in it has to be decoded; else in `room`, of its length. */
static struct str decoded(struct str text, char *room)
{
    if (str_find_char(text, '%') == NULL && str_find_char(text, '+') == NULL) {
        return text;
    }
    return str_from(room, script_args_decode(room, text));
}

/* Stores the value on top under the name below it, in the table below both: beside those that are
 * there. */
static void script_args_store(lua_State *L)
{
    lua_pushvalue(L, -2);
    lua_rawget(L, -4);
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        lua_pop(L, 1);
        lua_rawset(L, -3);
        return;
    case LUA_TTABLE:
        lua_insert(L, -2);
        lua_rawseti(L, -2, (int) lua_objlen(L, -2) + 1);
        lua_pop(L, 2);
        return;
    default:
        lua_createtable(L, 4, 0);
        lua_insert(L, -3);
        lua_insert(L, -2);
        lua_rawseti(L, -3, 2);
        lua_rawseti(L, -2, 1);
        lua_rawset(L, -3);
    }
}

int script_ffi_args_next(struct script_args *args, char *room, struct script_arg *out)
{
    struct str part;
    const char *equals;

    if (args->rest.data == NULL || args->rest.len == 0) {
        return SCRIPT_ARGS_END;
    }
    if (args->max != 0 && args->count == args->max) {
        return SCRIPT_ARGS_MORE;
    }
    part = str_cut(&args->rest, '&');
    args->count++;
    /* What ends in a separator has one more, which is empty. */
    if (args->rest.data != NULL && args->rest.len == 0 && args->count == args->max) {
        args->rest = STR("&");
    }
    equals = str_find_char(part, '=');
    out->name = decoded(equals == NULL ? part : str_from(part.data, equals), room);
    out->value = STR_NONE;
    if (equals != NULL) {
        out->value = decoded(str_from(equals + 1, part.data + part.len), room + out->name.len);
    }
    return out->name.len == 0 ? SCRIPT_ARGS_NAMELESS : SCRIPT_ARGS_ONE;
}

bool script_args_read(lua_State *L, struct str text, unsigned max)
{
    struct script_args args = {.rest = text, .max = max};
    char *room = lua_newuserdata(L, text.len + 1);
    struct script_arg arg;
    enum script_args_result result;

    luaL_checkstack(L, 6, NULL);
    lua_insert(L, -2);
    while ((result = script_ffi_args_next(&args, room, &arg)) < SCRIPT_ARGS_END) {
        if (result == SCRIPT_ARGS_NAMELESS) {
            continue;
        }
        script_push_str(L, arg.name);
        if (arg.value.data == NULL) {
            lua_pushboolean(L, true);
        } else {
            script_push_str(L, arg.value);
        }
        script_args_store(L);
    }
    lua_remove(L, -2);
    return result == SCRIPT_ARGS_END;
}

int script_args_give(lua_State *L, struct str text, unsigned max)
{
    if (script_args_read(L, text, max)) {
        return 1;
    }
    lua_pushliteral(L, "truncated");
    return 2;
}

unsigned script_args_max(lua_State *L, int index)
{
    lua_Integer max = luaL_optinteger(L, index, SCRIPT_ARGS_MAX);

    return max <= 0 || max > INT32_MAX ? 0 : (unsigned) max;
}

static int decode_args(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) == 0) {
        return luaL_error(L, "expecting 1 or 2 arguments but seen 0");
    }
    struct str text = script_check_str(L, 1);
    unsigned max = script_args_max(L, 2);

    (void) thread;
    if (lua_isnoneornil(L, 3)) {
        lua_settop(L, 1);
        lua_newtable(L);
    } else {
        luaL_checktype(L, 3, LUA_TTABLE);
        lua_settop(L, 3);
    }
    return script_args_give(L, text, max);
}

/* ---- writing */

/* Where arguments are written; in a first round they are measured alone. */
struct writing {
    char *at; /* NULL: measuring */
    size_t len;
};

static void script_args_put(struct writing *out, struct str text)
{
    if (out->at != NULL) {
        out->at = str_put(out->at, text);
    }
    out->len += text.len;
}

static void put_escaped(struct writing *out, struct str text)
{
    if (out->at != NULL) {
        out->at = escape_write(out->at, text, ESCAPE_JS_COMPONENT);
    }
    out->len += escape_length(text, ESCAPE_JS_COMPONENT);
}

/* One argument, with the value on top; false is none. */
static void write_one(lua_State *L, struct str name, struct writing *out)
{
    int type = lua_type(L, -1);
    struct str value = STR_NONE;

    if (type == LUA_TBOOLEAN && !lua_toboolean(L, -1)) {
        return;
    }
    if (out->len != 0) {
        script_args_put(out, STR("&"));
    }
    put_escaped(out, name);
    if (type == LUA_TNUMBER || type == LUA_TSTRING) {
        lua_pushvalue(L, -1); /* a number becomes a text: not the one that lua_next walks over */
        value.data = lua_tolstring(L, -1, &value.len);
        script_args_put(out, STR("="));
        put_escaped(out, value);
        lua_pop(L, 1);
    } else if (type != LUA_TBOOLEAN) {
        luaL_error(L, "attempt to use %s as query arg value",
                   lua_typename(L, type <= LUA_TTHREAD ? type : LUA_TUSERDATA));
    }
}

static void write_all(lua_State *L, int index, struct writing *out)
{
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        struct str name;

        if (lua_type(L, -2) != LUA_TSTRING) {
            luaL_error(L, "attempt to use a non-string key in the \"args\" option table");
        }
        name.data = lua_tolstring(L, -2, &name.len);
        if (!lua_istable(L, -1)) {
            write_one(L, name, out);
            continue;
        }
        for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
            write_one(L, name, out);
        }
    }
}

void script_args_write(lua_State *L, int index)
{
    struct writing out = {NULL, 0};

    luaL_checkstack(L, 6, NULL);
    write_all(L, index, &out);
    out.at = lua_newuserdata(L, out.len + 1);
    char *start = out.at;
    out.len = 0;
    write_all(L, index, &out);
    lua_pushlstring(L, start, out.len);
    lua_remove(L, -2);
}

static int encode_args(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    if (lua_gettop(L) != 1) {
        return luaL_error(L, "expecting 1 argument but seen %d", lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    script_args_write(L, 1);
    return 1;
}

static const struct script_row rows[] = {
    {"encode_args", encode_args, 0, false},
    {"decode_args", decode_args, 0, false},
    {0},
};

void script_args_add(lua_State *L)
{
    script_add(L, rows);
}
