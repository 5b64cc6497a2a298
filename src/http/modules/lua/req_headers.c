/* The fields of a request, for ngx.req.get_headers, set_header, clear_header. */
#include "base/text.h"
#include "http/message/parser.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/request/field_change.h"

#define FIELDS_ONCE                                                                                \
    (FIELD_BIT(FIELD_HOST) | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_CONTENT_TYPE) |     \
     FIELD_BIT(FIELD_USER_AGENT) | FIELD_BIT(FIELD_REFERER) | FIELD_BIT(FIELD_AUTHORIZATION) |     \
     FIELD_BIT(FIELD_RANGE) | FIELD_BIT(FIELD_IF_RANGE) | FIELD_BIT(FIELD_IF_MODIFIED_SINCE) |     \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_EXPECT) | FIELD_BIT(FIELD_CONNECTION) |  \
     FIELD_BIT(FIELD_VIA) | FIELD_BIT(FIELD_ACCEPT_ENCODING) | FIELD_BIT(FIELD_KEEP_ALIVE) |       \
     FIELD_BIT(FIELD_UPGRADE) | FIELD_BIT(FIELD_DATE) | FIELD_BIT(FIELD_IF_MATCH) |                \
     FIELD_BIT(FIELD_IF_NONE_MATCH) | FIELD_BIT(FIELD_IF_UNMODIFIED_SINCE))

int http_lua_field_at(const struct fields *fields, int number, struct http_lua_ffi_pair *out)
{
    if (number < 0 || (unsigned) number >= fields->count || fields->items[number].is_removed) {
        return LUA_FFI_NONE;
    }
    out->name = fields->items[number].name;
    out->value = fields->items[number].value;
    return LUA_FFI_OK;
}

int http_lua_ffi_request_fields(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result != LUA_FFI_OK ? result : (int) request->headers.count;
}

int http_lua_ffi_request_field(int number, struct http_lua_ffi_pair *out)
{
    return http_lua_field_at(&http_lua_running_request()->headers, number, out);
}

struct str http_lua_escaped(struct arena *arena, struct str text, enum escape_set set)
{
    char *copy = arena_text(arena, escape_length(text, set));

    return str_from(copy, escape_write(copy, text, set));
}

int http_lua_request_field_set(struct request *request, struct str name, struct str value,
                               bool appends)
{
    struct arena *arena = &request->arena;
    struct field_change change = {.name = http_lua_escaped(arena, name, ESCAPE_FIELD_NAME),
                                  .value = http_lua_escaped(arena, value, ESCAPE_FIELD_VALUE)};
    int64_t length;

    change.id = field_identify(change.name);
    change.appends = appends && (FIELD_BIT(change.id) & FIELDS_ONCE) == 0;
    if (change.id == FIELD_CONTENT_LENGTH && value.len != 0 &&
        !content_length_parse(value, &length)) {
        return LUA_FFI_BAD_VALUE;
    }
    if (!request_change_field(request, &change)) {
        return LUA_FFI_BAD_VALUE;
    }
    return LUA_FFI_OK;
}

int http_lua_ffi_request_field_set(const char *name, size_t len, const char *value,
                                   size_t value_len, int appends)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    if (request->head.version < HTTP_1_0) {
        return LUA_FFI_OK; /* HTTP/0.9 has no fields */
    }
    return http_lua_request_field_set(request, (struct str){name, len},
                                      (struct str){value, value_len}, appends);
}
