/* ngx.var: the variables of whatever has some: a request, a session. */
#ifndef LUA_VALUES_VARIABLES_H
#define LUA_VALUES_VARIABLES_H

#include <stddef.h>

#include "lua/vm/thread.h"

/* What the functions below give. */
enum {
    SCRIPT_VARIABLE_OK = 0,
    SCRIPT_VARIABLE_BAD_CONTEXT = -1,
    SCRIPT_VARIABLE_NO_REQUEST = -2,
    SCRIPT_VARIABLE_NONE = -3,
    SCRIPT_VARIABLE_FIXED = -4, /* it cannot be changed */
    SCRIPT_VARIABLE_DUE = -6,   /* values have to be fetched first */
};

/* Adds it to the table on top. */
void script_variables_add(lua_State *L);

/* Assigns; a value without data: from here on it has none. */
int script_variable_set(struct variable_env *env, struct str name, struct str value);

/* ---- called by FFI (library/variables.lua) */

/* These give the bytes of the value, which stays as long as the request, and their number. */
int script_ffi_variable(const char *name, size_t len, const char **out);
/* The same when values were fetched. */
int script_ffi_variable_fetched(const char *name, size_t len, const char **out);
/* $1 and so on, of the last regular expression: up to the last that took part in the match. */
int script_ffi_capture(int number, const char **out);
/* value NULL: from here on it has none. */
int script_ffi_variable_set(const char *name, size_t len, const char *value, size_t value_len);

#endif
