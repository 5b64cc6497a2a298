/* Variables about the location of a request, and about the response. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/parse.h"
#include "http/files/path.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/variables/variables_get.h"

/* ---- the location ---- */

VARIABLE_GET(get_server_name)
{
    return variable_give(out, variable_request(env)->server->name);
}

VARIABLE_GET(get_document_root)
{
    return variable_give(out, template_text(variable_request(env)->location->files->root, env));
}

VARIABLE_GET(get_realpath_root)
{
    struct str root = template_text(variable_request(env)->location->files->root, env);
    char *resolved = realpath(root.data, NULL);

    if (resolved == NULL) {
        log_crit(env->log, errno, "realpath() \"%.*s\" failed", STR_ARG(root));
        return false;
    }
    *out = arena_dup(env->arena, str_of(resolved));
    free(resolved);
    return true;
}

/* Evaluating a path must not set the response: the status is restored. */
VARIABLE_GET(get_request_filename)
{
    struct request *request = variable_request(env);
    unsigned status = request->response.status;
    size_t root_length;
    bool is_found = request_map_path(request, out, &root_length);

    request->response.status = status;
    return is_found;
}

VARIABLE_GET(get_limit_rate)
{
    return variable_give_number(env, out, variable_request(env)->delivery.limit_rate);
}

VARIABLE_SET(set_limit_rate)
{
    struct request *request = variable_request(env);
    uint64_t rate;

    if (!parse_size(value, &rate)) {
        log_error(env->log, 0, "invalid $limit_rate \"%.*s\"", STR_ARG(value));
        return;
    }
    request->delivery.limit_rate = rate;
    request->delivery.is_limit_set = true;
}

/* ---- the response ---- */

VARIABLE_GET(get_bytes_sent)
{
    return variable_give_number(env, out, request_bytes_sent(variable_request(env)));
}

VARIABLE_GET(get_body_bytes_sent)
{
    return variable_give_number(env, out, request_body_bytes_sent(variable_request(env)));
}

/* Three digits; "009" for HTTP/0.9, which has no status codes. */
VARIABLE_GET(get_status)
{
    const struct request *request = variable_request(env);
    unsigned status = request_status(request);
    char *text = arena_text(env->arena, 4);
    char *at = text;

    if (status == 0 && request->head.version < HTTP_1_0) {
        status = 9;
    }
    if (status < 100) {
        *at++ = '0';
    }
    if (status < 10) {
        *at++ = '0';
    }
    at = format_uint(at, status % 1000);
    return variable_give(out, str_from(text, at));
}

VARIABLE_GET(get_request_completion)
{
    return variable_give(out, variable_request(env)->is_completed ? STR("OK") : STR(""));
}

/* ---- fields generated from members of the response ---- */

static bool give_type(struct request *request, struct str *out)
{
    const struct response *response = &request->response;
    const struct str parts[] = {response->content_type, STR("; charset="), response->charset};

    if (response->content_type.len == 0) {
        return false;
    }
    *out =
        response->charset.len == 0 ? response->content_type : arena_join(&request->arena, parts, 3);
    return true;
}

static bool give_length(struct request *request, struct str *out)
{
    const struct response *response = &request->response;

    return response->content_length >= 0 && response->status != 204 &&
           variable_give_number(&request->env, out, (uint64_t) response->content_length);
}

static bool give_last_modified(struct request *request, struct str *out)
{
    char *text;

    if (!response_tells_modified(&request->response)) {
        return false;
    }
    text = arena_text(&request->arena, HTTP_DATE_LENGTH);
    return variable_give(out,
                         str_from(text, http_date_format(text, request->response.last_modified)));
}

static bool give_location(struct request *request, struct str *out)
{
    *out = request->response.location;
    return out->len != 0;
}

static bool give_etag(struct request *request, struct str *out)
{
    *out = request->response.etag;
    return out->len != 0;
}

static bool give_connection(struct request *request, struct str *out)
{
    if (request->response.status == 101) {
        return variable_give(out, STR("upgrade"));
    }
    return variable_give(out, request->keepalive ? STR("keep-alive") : STR("close"));
}

static bool give_keep_alive(struct request *request, struct str *out)
{
    uint64_t seconds = request->location->connections->keepalive_header_s;

    if (!request->keepalive || seconds == 0) {
        return false;
    }
    *out = arena_printf(&request->arena, "timeout=%llu", (unsigned long long) seconds);
    return true;
}

static bool give_transfer_encoding(struct request *request, struct str *out)
{
    return request->response.framing == FRAMING_CHUNKED && variable_give(out, STR("chunked"));
}

/* By the name after $sent_http_. */
static const struct made_field {
    struct str name;
    bool (*give)(struct request *request, struct str *out);
} made_fields[] = {
    {STR_INIT("content_type"), give_type},
    {STR_INIT("content_length"), give_length},
    {STR_INIT("last_modified"), give_last_modified},
    {STR_INIT("location"), give_location},
    {STR_INIT("etag"), give_etag},
    {STR_INIT("connection"), give_connection},
    {STR_INIT("keep_alive"), give_keep_alive},
    {STR_INIT("transfer_encoding"), give_transfer_encoding},
};

bool response_made_field(struct request *request, struct str name, struct str *out)
{
    for (size_t i = 0; i < sizeof(made_fields) / sizeof(made_fields[0]); i++) {
        if (str_equal(made_fields[i].name, name)) {
            return made_fields[i].give(request, out);
        }
    }
    return false;
}

VARIABLE_GET(get_sent_header)
{
    struct request *request = variable_request(env);

    if (response_made_field(request, variable->rest, out)) {
        return true;
    }
    return fields_by_variable_name(&request->response.fields, env->arena, variable->rest, out);
}

VARIABLE_GET(get_sent_trailer)
{
    const struct fields *trailers = variable_request(env)->response.trailers;

    return trailers != NULL && fields_by_variable_name(trailers, env->arena, variable->rest, out);
}

/* The value of a cookie in our Set-Cookie fields. */
VARIABLE_GET(get_sent_cookie)
{
    return fields_set_cookie(&variable_request(env)->response.fields, variable->rest, out);
}
