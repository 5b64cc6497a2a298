/*
 * What request.lua calls by FFI. None of them waits, and none throws an error. Those that give a
 * text return the number of its bytes, which stay as long as the request (lua/library/buffer.lua
 * says why).
 */
#ifndef HTTP_MODULES_LUA_FFI_H
#define HTTP_MODULES_LUA_FFI_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* What they give where it says so. */
enum {
    LUA_FFI_OK = 0,
    LUA_FFI_BAD_CONTEXT = -1, /* "API disabled in the current context" */
    LUA_FFI_NO_REQUEST = -2,  /* "no request found" */
    LUA_FFI_NONE = -3,        /* there is no such value */
    LUA_FFI_FIXED = -4,       /* it cannot be changed */
    LUA_FFI_BAD_VALUE = -5,
    LUA_FFI_SEVERAL = -7, /* there is a list of values */
};

struct http_lua_ffi_pair {
    struct str name, value;
};

/* Gives a text. */
static inline int http_lua_ffi_give(struct str text, const char **out)
{
    *out = text.data;
    return (int) text.len;
}

/* ---- ndk.c */
struct value_function;
/* The function of a directive and how many arguments it takes; NULL: there is none. */
const struct value_function *http_lua_ffi_value_function(const char *name, size_t len, int *least,
                                                         int *most);
/*
 * The bytes of its value for 0 to 2 arguments, which are only written if there is room for all,
 * `size`. LUA_FFI_BAD_VALUE: it failed, which was logged.
 */
int http_lua_ffi_value_compute(const struct value_function *function, int count, const char *first,
                               size_t first_len, const char *second, size_t second_len, char *out,
                               int size);

/* ---- req_headers.c, resp_headers.c */
/* How many places for fields the request has; some are empty: LUA_FFI_NONE. */
int http_lua_ffi_request_fields(void);
int http_lua_ffi_request_field(int number, struct http_lua_ffi_pair *out);
/* value NULL: all of that name are removed. */
int http_lua_ffi_request_field_set(const char *name, size_t len, const char *value,
                                   size_t value_len, int appends);
int http_lua_ffi_response_fields(void);
int http_lua_ffi_response_made(void);
int http_lua_ffi_response_field(int number, struct http_lua_ffi_pair *out);
/* The value of the field; LUA_FFI_NONE, LUA_FFI_SEVERAL. */
int http_lua_ffi_response_get(const char *name, size_t len, const char **out);
/* The next value of the field in or after the position *number, which is advanced; or LUA_FFI_NONE.
 */
int http_lua_ffi_response_next(const char *name, size_t len, int *number, const char **out);
int http_lua_ffi_response_field_set(const char *name, size_t len, const char *value,
                                    size_t value_len, int appends);
int http_lua_ffi_status(void);
int http_lua_ffi_status_set(int status);
int http_lua_ffi_reason_set(const char *reason, size_t len);
int http_lua_ffi_bypass_checks(void);
int http_lua_ffi_is_head_sent(void);

/* ---- req_line.c, uri.c */
int http_lua_ffi_is_subrequest(void);
int http_lua_ffi_is_internal(void);
int http_lua_ffi_method(const char **out);
int http_lua_ffi_method_set(int number);
double http_lua_ffi_start_time(void); /* 0 where there is no request */
int http_lua_ffi_uri_args(const char **out);

#endif
