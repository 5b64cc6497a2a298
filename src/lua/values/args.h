/* Arguments of URLs and of forms, "a=1&b", as tables. */
#ifndef LUA_VALUES_ARGS_H
#define LUA_VALUES_ARGS_H

#include <lua.h>
#include <stdbool.h>

#include "base/str.h"

#define SCRIPT_ARGS_MAX 100 /* arguments that are read unless a script says how many */

/* Arguments that are read one after the other. */
struct script_args {
    struct str rest; /* of the text */
    unsigned max;    /* so many at most; 0 = all */
    unsigned count;  /* so far, those without a name, too */
};

struct script_arg {
    struct str name;
    struct str value; /* data NULL: it has no `=` */
};

enum script_args_result {
    SCRIPT_ARGS_ONE,
    SCRIPT_ARGS_NAMELESS, /* one without a name, which counts for nothing */
    SCRIPT_ARGS_END,
    SCRIPT_ARGS_MORE, /* there is more, and max was reached */
};

/* The next one, decoded where it has to be into `room`, which is as long as the text. Gives an enum
 * script_args_result. */
int script_ffi_args_next(struct script_args *args, char *room, struct script_arg *out);

/*
 * Reads arguments into the table on top of the stack: a name without `=` is true, one that comes
 * again a list. `max`: so many at most, 0 = all of them. False: there were more.
 */
bool script_args_read(lua_State *L, struct str text, unsigned max);

/* The two results of a function that reads them, with the table on top: that, and "truncated" where
 * there were more. */
int script_args_give(lua_State *L, struct str text, unsigned max);

/* The argument that says how many are read. */
unsigned script_args_max(lua_State *L, int index);

/* Pushes the table at `index` written as arguments; an error is thrown where it holds what cannot
 * be. */
void script_args_write(lua_State *L, int index);

/* Adds ngx.encode_args and ngx.decode_args to the table on top. */
void script_args_add(lua_State *L);

#endif
