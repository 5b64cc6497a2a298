/* Fuzz target: arguments read into a table, written, and read again. */
#include <lauxlib.h>
#include <stdint.h>
#include <stdlib.h>

#include "lua/values/args.h"
#include "lua/vm/function.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a protected call, as a table of its own. */
static int read_and_write(lua_State *L)
{
    const struct str *text = lua_touserdata(L, 1);

    lua_settop(L, 0);
    lua_newtable(L);
    script_args_read(L, *text, 0);
    script_args_write(L, 1);
    lua_newtable(L);
    if (!script_args_read(L, script_check_str(L, 2), 0)) {
        abort();
    }
    script_args_write(L, 3);
    if (lua_objlen(L, 2) != lua_objlen(L, 4)) {
        abort();
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    lua_State *L = luaL_newstate();

    if (L == NULL || lua_cpcall(L, read_and_write, &text) != 0) {
        abort();
    }
    lua_close(L);
    return 0;
}
