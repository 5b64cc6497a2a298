/* Conditional requests (RFC 9110, 13): If-Modified-Since, If-Unmodified-Since, If-Match,
 * If-None-Match. Backends evaluate the conditions of requests that they get: only responses from
 * the cache, and those that this server generates, are checked here. */
#include "base/parse.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/routing/response_settings.h"
#include "server/module.h"

/* Responds with 412 instead of the handler's response. */
static void refuse_precondition(struct request *request)
{
    request->response.status = 412;
    request->response.fields = (struct fields){0};
}

static struct str without_weakness(struct str tag)
{
    return str_starts(tag, STR("W/")) ? str_skip(tag, 2) : tag;
}

/* Is our ETag in the list? With weak comparison W/"x" and "x" are equal; with strong comparison
 * weak tags never match. */
static bool list_has_tag(struct str list, struct str etag, bool is_weak)
{
    if (list.len == 1 && list.data[0] == '*') {
        return true;
    }
    if (etag.len == 0) {
        return false;
    }
    if (is_weak) {
        etag = without_weakness(etag);
    } else if (etag.data[0] != '"') {
        return false;
    }
    while (list.data != NULL) {
        /* A comma inside a tag splits it, and the parts do not match: our tags contain no comma. */
        struct str tag = str_trim(str_cut(&list, ','));
        if (str_equal(is_weak ? without_weakness(tag) : tag, etag)) {
            return true;
        }
    }
    return false;
}

static bool is_unmodified_since(const struct request *request, struct str value)
{
    time_t date = http_date_parse(value);

    return request->response.last_modified != -1 && date != -1 &&
           request->response.last_modified <= date;
}

/* if_modified_since determines the comparison: exactly the date that was sent, or any date that is
 * not earlier. */
static bool is_modified(const struct request *request, struct str value)
{
    time_t last_modified = request->response.last_modified;

    if (last_modified == -1 || request->location->responses->if_modified_since == IMS_OFF) {
        return true;
    }
    time_t date = http_date_parse(value);
    if (date == last_modified) {
        return false;
    }
    return request->location->responses->if_modified_since == IMS_EXACT || date < last_modified;
}

static void answer_not_modified(struct response *response)
{
    response->status = 304;
    response->reason = STR_NONE;
    response->content_type = STR_NONE;
    response->charset = STR_NONE;
    response->content_length = -1;
    response->range.is_allowed = false;
    response->is_header_only = true;
}

static void check_preconditions(struct request *request)
{
    struct response *response = &request->response;
    const struct fields *headers = &request->headers;
    const struct field *since = fields_get(headers, FIELD_IF_MODIFIED_SINCE);
    struct str none_match;

    const struct field *unmodified = fields_get(headers, FIELD_IF_UNMODIFIED_SINCE);
    if (unmodified != NULL && !is_unmodified_since(request, unmodified->value)) {
        refuse_precondition(request);
        return;
    }
    struct str match;
    if (fields_joined(headers, &request->arena, FIELD_IF_MATCH, &match) &&
        !list_has_tag(match, response->etag, false)) {
        refuse_precondition(request);
        return;
    }
    bool has_none_match = fields_joined(headers, &request->arena, FIELD_IF_NONE_MATCH, &none_match);
    if (since == NULL && !has_none_match) {
        return;
    }
    if (since != NULL && is_modified(request, since->value)) {
        return;
    }
    if (has_none_match && !list_has_tag(none_match, response->etag, true)) {
        return;
    }
    answer_not_modified(response);
    fields_set(&response->fields, &request->arena, FIELD_CONTENT_ENCODING, STR_NONE);
}

static void not_modified_header(struct request *request)
{
    const uint64_t conditions = FIELD_BIT(FIELD_IF_MODIFIED_SINCE) |
                                FIELD_BIT(FIELD_IF_UNMODIFIED_SINCE) | FIELD_BIT(FIELD_IF_MATCH) |
                                FIELD_BIT(FIELD_IF_NONE_MATCH);

    if (request->response.status != 200 || request->response.is_unconditional ||
        request != request->main) {
        return;
    }
    if ((request->headers.seen & conditions) != 0) {
        check_preconditions(request);
    }
}

static const struct filter_hook filters[] = {
    {.name = "not_modified", .run = not_modified_header},
    {.run = NULL},
};
static const struct http_module hooks = {.filters = filters};

const struct module ngx_http_not_modified_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_not_modified_filter_module",
    .kind = MODULE_HTTP,
    .hooks = &hooks,
};
