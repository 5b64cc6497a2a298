/* The head of the response, for ngx.header, ngx.resp, ngx.status. */
#include "base/text.h"
#include "http/message/parser.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/request/field_change.h"
#include "http/variables/variables.h"

/* A script may say several of Connection and Keep-Alive. */
#define FIELDS_ONCE                                                                                \
    ((RESPONSE_FIELDS_ONCE & ~(FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_KEEP_ALIVE))) |       \
     FIELD_BIT(FIELD_CONTENT_ENCODING))

/* Those that a response keeps apart from its list of fields: as variables name them, and as they
 * are sent. */
static const struct {
    struct str variable; /* after $sent_http_ */
    struct str name;
    bool is_asked; /* a script may ask for it by name */
    bool is_given; /* it is among those that a script gets all together */
} made[] = {
    {STR_INIT("content_type"), STR_INIT("content-type"), true, true},
    {STR_INIT("content_length"), STR_INIT("content-length"), true, true},
    {STR_INIT("last_modified"), STR_INIT("last-modified"), true, false},
    {STR_INIT("location"), STR_INIT("location"), true, true},
    {STR_INIT("etag"), STR_INIT("etag"), true, true},
    {STR_INIT("connection"), STR_INIT("connection"), false, true},
    {STR_INIT("transfer_encoding"), STR_INIT("transfer-encoding"), false, true},
};
#define MADE ((int) (sizeof(made) / sizeof(made[0])))

/* Does a script that says `asked` mean the field of this name? */
static bool is_meant(const struct request *request, struct str name, struct str asked)
{
    if (name.len != asked.len) {
        return false;
    }
    if (!http_lua_settings_of(request)->transforms_names) {
        return str_equal_nocase(name, asked);
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = asked.data[i] == '_' ? '-' : asked.data[i];

        if (ascii_lower((unsigned char) name.data[i]) != ascii_lower((unsigned char) c)) {
            return false;
        }
    }
    return true;
}

/* ---- reading */

int http_lua_ffi_response_fields(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result != LUA_FFI_OK ? result : (int) request->response.fields.count + MADE;
}

int http_lua_ffi_response_made(void)
{
    return MADE;
}

int http_lua_ffi_response_field(int number, struct http_lua_ffi_pair *out)
{
    struct request *request = http_lua_running_request();

    if (number >= MADE) {
        return http_lua_field_at(&request->response.fields, number - MADE, out);
    }
    out->name = made[number].name;
    bool is_there =
        made[number].is_given && response_made_field(request, made[number].variable, &out->value);
    return is_there ? LUA_FFI_OK : LUA_FFI_NONE;
}

/* The next field of the name in or after the position *number, which is advanced. NULL: there is
 * none. */
static const struct field *response_field_next(const struct request *request, struct str name,
                                               int *number)
{
    const struct fields *fields = &request->response.fields;

    for (; *number < (int) fields->count; ++*number) {
        const struct field *field = &fields->items[*number];

        if (!field->is_removed && is_meant(request, field->name, name)) {
            ++*number;
            return field;
        }
    }
    return NULL;
}

int http_lua_ffi_response_next(const char *name, size_t len, int *number, const char **out)
{
    const struct field *field =
        response_field_next(http_lua_running_request(), (struct str){name, len}, number);

    return field == NULL ? LUA_FFI_NONE : http_lua_ffi_give(field->value, out);
}

int http_lua_ffi_response_get(const char *name, size_t len, const char **out)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);
    struct str value;
    int number = 0;

    if (result != LUA_FFI_OK) {
        return result;
    }
    for (int i = 0; i < MADE; i++) {
        if (made[i].is_asked && is_meant(request, made[i].name, (struct str){name, len}) &&
            response_made_field(request, made[i].variable, &value)) {
            return http_lua_ffi_give(value, out);
        }
    }
    const struct field *field = response_field_next(request, (struct str){name, len}, &number);
    if (field == NULL) {
        return LUA_FFI_NONE;
    }
    bool is_alone = response_field_next(request, (struct str){name, len}, &number) == NULL;
    return is_alone ? http_lua_ffi_give(field->value, out) : LUA_FFI_SEVERAL;
}

/* ---- changing */

/* As a script says it, whatever the location says of redirects. */
static void change_location(struct request *request, const struct field_change *change)
{
    request->response.location = STR_NONE;
    fields_set(&request->response.fields, &request->arena, FIELD_LOCATION, change->value);
    struct field *field = fields_get(&request->response.fields, FIELD_LOCATION);
    if (field != NULL) {
        field->name = change->name;
    }
}

static int change_length(struct request *request, struct str value)
{
    int64_t length = -1;

    if (value.len != 0 && !content_length_parse(value, &length)) {
        return LUA_FFI_BAD_VALUE;
    }
    request->response.content_length = length;
    request->response.is_length_set = length != -1;
    if (length == -1) {
        request->response.range.is_allowed = false;
    }
    return LUA_FFI_OK;
}

int http_lua_response_field_set(struct request *request, struct str name, struct str value,
                                bool appends)
{
    struct arena *arena = &request->arena;
    struct field_change change = {.name = http_lua_escaped(arena, name, ESCAPE_FIELD_NAME),
                                  .value = http_lua_escaped(arena, value, ESCAPE_FIELD_VALUE)};

    change.id = field_identify(change.name);
    change.appends = appends && (FIELD_BIT(change.id) & FIELDS_ONCE) == 0;
    switch (change.id) {
    case FIELD_CONTENT_LENGTH:
        return change_length(request, change.value);
    case FIELD_LOCATION:
        change_location(request, &change);
        return LUA_FFI_OK;
    case FIELD_CONTENT_TYPE:
        http_lua_request_of(request)->has_type = true;
        break;
    default:
        break;
    }
    response_change_field(request, &change);
    return LUA_FFI_OK;
}

int http_lua_ffi_response_field_set(const char *name, size_t len, const char *value,
                                    size_t value_len, int appends)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    if (request->response.progress != RESPONSE_NOT_SENT) {
        log_error(&request->log, 0,
                  "attempt to set ngx.header.HEADER after sending out response headers");
        return LUA_FFI_OK;
    }
    if (len == 0) {
        return LUA_FFI_OK; /* there is no such field */
    }
    struct str field = {name, len};
    if (memchr(name, '_', len) != NULL && http_lua_settings_of(request)->transforms_names) {
        char *copy = arena_text(&request->arena, len);
        for (size_t i = 0; i < len; i++) {
            copy[i] = name[i] == '_' ? '-' : name[i];
        }
        field.data = copy;
    }
    return http_lua_response_field_set(request, field, (struct str){value, value_len}, appends);
}

/* ---- the status */

int http_lua_ffi_status(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    unsigned status = request_status(request);
    return status == 0 && request->head.version < HTTP_1_0 ? 9 : (int) status;
}

int http_lua_ffi_status_set(int status)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    if (request->response.progress != RESPONSE_NOT_SENT) {
        log_error(&request->log, 0, "attempt to set ngx.status after sending out response headers");
        return LUA_FFI_OK;
    }
    request->response.error_status = 0;
    request->response.status = status < 0 || status > 999 ? 0 : (unsigned) status;
    request->response.reason = STR_NONE;
    request->response.keeps_head |= script_running()->phase == SCRIPT_HEADER_FILTER;
    return LUA_FFI_OK;
}

int http_lua_ffi_reason_set(const char *reason, size_t len)
{
    struct request *request = http_lua_running_request();

    if (request->response.progress == RESPONSE_NOT_SENT) {
        request->response.reason =
            http_lua_escaped(&request->arena, (struct str){reason, len}, ESCAPE_FIELD_VALUE);
    }
    return LUA_FFI_OK;
}

int http_lua_ffi_bypass_checks(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result == LUA_FFI_OK) {
        request->response.is_unconditional = true;
    }
    return result;
}

int http_lua_ffi_is_head_sent(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result != LUA_FFI_OK ? result : request->response.progress != RESPONSE_NOT_SENT;
}
