/* Variables about the request. */
#include "base/checksum.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/request/body.h"
#include "http/variables/variables_get.h"

VARIABLE_GET(get_request_part)
{
    const struct request *request = variable_request(env);

    *out = *(const struct str *) (const void *) ((const char *) request + variable->data);
    return out->data != NULL;
}

/* That of the client, in subrequests as well. */
VARIABLE_GET(get_request_method)
{
    const struct request *request = variable_request(env)->main;

    *out = request->method_name;
    return out->data != NULL;
}

/* ---- the target ---- */

VARIABLE_SET(set_args)
{
    struct request *request = variable_request(env);

    request_set_uri(request, request->uri, value);
}

VARIABLE_GET(get_is_args)
{
    return variable_give(out, variable_request(env)->args.len == 0 ? STR("") : STR("?"));
}

/* The value after "name=" in the arguments; names are case-insensitive. */
bool request_argument(const struct request *request, struct str name, struct str *out)
{
    struct str args = request->args;

    while (args.data != NULL) {
        struct str part = str_cut(&args, '&');

        if (part.len > name.len && part.data[name.len] == '=' && str_starts_nocase(part, name)) {
            *out = str_skip(part, name.len + 1);
            return true;
        }
    }
    return false;
}

VARIABLE_GET(get_argument)
{
    return variable->rest.len != 0 && request_argument(variable_request(env), variable->rest, out);
}

VARIABLE_GET(get_request_uri)
{
    *out = request_origin_form(variable_request(env));
    return out->data != NULL;
}

VARIABLE_GET(get_raw_uri)
{
    struct str rest = request_origin_form(variable_request(env));

    if (rest.data == NULL) {
        return false;
    }
    return variable_give(out, str_cut(&rest, '?'));
}

/* A request target with upper-case hex digits in %xx (RFC 3986, 6.2.2.1), and without a
 * fragment. */
static struct str normalized(struct arena *arena, struct str target)
{
    char *copy;

    target = str_cut(&target, '#');
    copy = arena_cstr(arena, target);
    for (size_t i = 0; i < target.len; i++) {
        bool is_digit = (i >= 1 && copy[i - 1] == '%') || (i >= 2 && copy[i - 2] == '%');

        if (is_digit && copy[i] >= 'a' && copy[i] <= 'f') {
            copy[i] = (char) (copy[i] - 'a' + 'A');
        }
    }
    return (struct str){copy, target.len};
}

/* The port is that of the listening socket, unless it is the default port of the scheme. */
VARIABLE_GET(get_full_request)
{
    struct request *request = variable_request(env);
    bool is_encrypted = request_is_encrypted(request);
    struct str host, port;
    struct str target = request_origin_form(request);

    get_host(env, variable, &host);
    bool has_port = get_server_port(env, variable, &port) && port.len != 0 &&
                    !str_is(port, is_encrypted ? "443" : "80");
    const struct str parts[] = {
        is_encrypted ? STR("https://") : STR("http://"),
        host,
        has_port ? STR(":") : STR_NONE,
        has_port ? port : STR_NONE,
        variable->data != 0 ? normalized(env->arena, target) : target,
    };
    return variable_give(out, arena_join(env->arena, parts, 5));
}

VARIABLE_GET(get_host)
{
    const struct request *request = variable_request(env);
    struct str host = request->head.host.len != 0 ? request->head.host : request->server->name;

    return variable_give(out, host);
}

VARIABLE_GET(get_request_port)
{
    return variable_give(out, variable_request(env)->head.port);
}

VARIABLE_GET(get_is_request_port)
{
    return variable_give(out, variable_request(env)->head.port.len == 0 ? STR("") : STR(":"));
}

/* As the client sent it; a request line of HTTP/0.9 has none. */
VARIABLE_GET(get_server_protocol)
{
    const struct request *request = variable_request(env);

    if (request->head.version == HTTP_2) {
        return variable_give(out, STR("HTTP/2.0"));
    }
    if (request->head.version == HTTP_3) {
        return variable_give(out, STR("HTTP/3.0"));
    }
    struct str line = str_trim(request->head.line);
    const char *blank = str_find_last_char(line, ' ');
    if (request->head.version < HTTP_1_0 || blank == NULL) {
        return false;
    }
    return variable_give(out, str_from(blank + 1, line.data + line.len));
}

/* ---- header fields ---- */

VARIABLE_GET(get_header)
{
    const struct request *request = variable_request(env);

    return fields_joined(&request->headers, env->arena, (enum field_id) variable->data, out);
}

VARIABLE_GET(get_header_by_name)
{
    const struct request *request = variable_request(env);

    return fields_by_variable_name(&request->headers, env->arena, variable->rest, out);
}

/* A chunked body has a length after it was read. */
VARIABLE_GET(get_content_length)
{
    const struct request *request = variable_request(env);
    const struct field *field = fields_get(&request->headers, FIELD_CONTENT_LENGTH);

    if (request->incoming.is_lost) {
        return variable_give(out,
                             STR("0")); /* a backend that got a length would wait for the bytes */
    }
    if (field != NULL) {
        return variable_give(out, field->value);
    }
    bool is_chunked = request->incoming.is_chunked || request->main->incoming.is_chunked;
    return is_chunked && request->incoming.body != NULL &&
           variable_give_number(env, out, request->incoming.body->size);
}

/* Splits "name = value" of a Cookie field; the value is everything after it up to the semicolon. */
static bool split_cookie(struct str pair, struct request_cookie *out)
{
    while (pair.len != 0 && *pair.data == ' ') {
        pair = str_skip(pair, 1);
    }
    const char *equals = str_find_char(pair, '=');
    if (equals == NULL) {
        return false;
    }
    struct str value = str_from(equals + 1, pair.data + pair.len);
    while (value.len != 0 && *value.data == ' ') {
        value = str_skip(value, 1);
    }
    out->name = str_trim(str_from(pair.data, equals));
    out->value = value;
    return true;
}

/* Since nginx 1.29.6 only a semicolon ends a cookie. */
bool request_cookie(const struct request *request, struct str name, struct str *out)
{
    struct request_cookie cookie;

    if (fields_get(&request->headers, FIELD_COOKIE) == NULL) {
        return false;
    }
    fields_each(field, &request->headers) {
        struct str rest = field->value;

        while (field->id == FIELD_COOKIE && !field->is_removed && rest.data != NULL) {
            if (split_cookie(str_cut(&rest, ';'), &cookie) && str_equal_nocase(cookie.name, name)) {
                *out = cookie.value;
                return true;
            }
        }
    }
    return false;
}

void request_cookies(const struct request *request, struct str prefix, struct arena *arena,
                     struct vec *out)
{
    struct request_cookie cookie;

    fields_each(field, &request->headers) {
        struct str rest = field->value;

        while (field->id == FIELD_COOKIE && !field->is_removed && rest.data != NULL) {
            if (split_cookie(str_cut(&rest, ';'), &cookie) && str_starts(cookie.name, prefix)) {
                *vec_add(out, arena, struct request_cookie) = cookie;
            }
        }
    }
}

VARIABLE_GET(get_cookie)
{
    return request_cookie(variable_request(env), variable->rest, out);
}

bool request_credentials(struct request *request, struct credentials *out)
{
    enum field_id id =
        request->method == METHOD_CONNECT ? FIELD_PROXY_AUTHORIZATION : FIELD_AUTHORIZATION;
    const struct field *field = fields_get(&request->headers, id);

    return field != NULL && credentials_parse(&request->arena, field->value, out);
}

enum handler_result request_demand_credentials(struct request *request, struct str realm)
{
    bool is_proxy = request->method == METHOD_CONNECT;
    const struct str parts[] = {STR("Basic realm=\""), field_value_safe(&request->arena, realm),
                                STR("\"")};

    fields_add_known(&request->response.fields, &request->arena,
                     is_proxy ? FIELD_PROXY_AUTHENTICATE : FIELD_WWW_AUTHENTICATE,
                     arena_join(&request->arena, parts, 3));
    return request_fail(request, is_proxy ? 407 : 401);
}

enum handler_result request_check_credentials(struct request *request, const struct template *realm,
                                              credentials_check *check)
{
    struct str text = template_text(realm, &request->env);
    struct credentials given;

    if (str_is(text, "off")) {
        return HANDLER_NEXT;
    }
    if (!request_credentials(request, &given)) {
        log_info(&request->log, 0, "no user/password was provided for basic authentication");
        return request_demand_credentials(request, text);
    }
    enum handler_result result = check(request, &given);
    if (fiber_is_cancelled()) {
        return HANDLER_CLOSED;
    }
    return result == HANDLER_NEXT ? request_demand_credentials(request, text) : result;
}

bool realm_may_be_on(const struct template *realm)
{
    return !(realm->is_constant && str_is(realm->constant, "off"));
}

bool request_remote_user(struct request *request, struct str *out)
{
    struct credentials credentials;

    if (!request_credentials(request, &credentials)) {
        return false;
    }
    *out = credentials.user;
    return true;
}

VARIABLE_GET(get_remote_user)
{
    return request_remote_user(variable_request(env), out);
}

/* ---- the request as a whole ---- */

VARIABLE_GET(get_request_length)
{
    const struct request *request = variable_request(env);

    return variable_give_number(env, out, request->head_size + request->incoming.received);
}

VARIABLE_GET(get_request_memory)
{
    return variable_give_number(env, out, variable_request(env)->main->memory.used);
}

VARIABLE_GET(get_request_id)
{
    unsigned char bytes[16];
    char *text = arena_text(env->arena, 2 * sizeof(bytes));

    random_bytes(bytes, sizeof(bytes));
    return variable_give(out, str_from(text, hex_encode(text, bytes, sizeof(bytes))));
}

uint64_t request_age_ms(const struct request *request)
{
    if (!request->location->request_time_cache) {
        clock_update();
    }
    return clock_now.now_ms - request->start_ms;
}

VARIABLE_GET(get_request_time)
{
    return variable_give_seconds(env, out, request_age_ms(variable_request(env)));
}

VARIABLE_GET(get_request_time_whole)
{
    uint64_t ms = request_age_ms(variable_request(env));

    return variable_give_number(env, out, ms * variable->data);
}

VARIABLE_GET(get_request_start_time)
{
    uint64_t now_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;
    uint64_t age_ms = clock_now.now_ms - variable_request(env)->start_ms;
    char *text = arena_text(env->arena, CLOCK_LOG_LENGTH);

    clock_log_format(text, (time_t) ((now_ms - age_ms) / 1000));
    return variable_give(out, (struct str){text, CLOCK_LOG_LENGTH});
}

/* When a stage began. False: it has not begun. In the log phase everything has been sent. */
static bool stage_began(const struct request *request, enum request_stage stage, uint64_t *ms)
{
    *ms = clock_now.now_ms;
    switch (stage) {
    case STAGE_RECEIVE:
        *ms = request->start_ms;
        return true;
    case STAGE_RECEIVED:
        *ms = request->received_ms;
        return true;
    case STAGE_SEND:
        *ms = request->responded_ms;
        break;
    case STAGE_SENT:
        break;
    }
    return request->responded_ms != 0;
}

VARIABLE_GET(get_moment)
{
    uint64_t ms;

    return stage_began(variable_request(env), (enum request_stage) variable->data, &ms) &&
           variable_give_moment(env, out, ms);
}

VARIABLE_GET(get_stage_time)
{
    const struct request *request = variable_request(env);
    uint64_t from_ms, to_ms;

    return stage_began(request, (enum request_stage) variable->data, &from_ms) &&
           stage_began(request, (enum request_stage)(variable->data + 1), &to_ms) &&
           variable_give_seconds(env, out, to_ms - from_ms);
}

VARIABLE_GET(get_request_body)
{
    const struct request_body *body = variable_request(env)->incoming.body;

    if (body == NULL || body->fd >= 0 || body->size == 0) {
        return false;
    }
    return variable_give(out, body->bytes);
}

VARIABLE_GET(get_request_body_file)
{
    const struct request_body *body = variable_request(env)->incoming.body;

    if (body == NULL || body->fd < 0) {
        return false;
    }
    return variable_give(out, body->file_name);
}
