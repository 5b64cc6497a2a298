/* ngx_http_addition_filter_module: output of other locations before and after a response. */
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/message/type_set.h"
#include "server/module.h"

struct addition_settings {
    struct str before; /* URI of a subrequest, or empty */
    struct str after;
    struct type_set *types;
};

static struct settings_key addition_key;

TYPED_SETTINGS(addition_settings_at, struct addition_settings, addition_key, struct http_location)

/* Per response, in the request's arena. */
struct addition_filter {
    struct body_filter filter;
    const struct addition_settings *settings;
    bool has_begun;
};

/* Writes the response of a subrequest to this URI, or its error page. MAY WAIT. False: the client
 * is gone. */
static bool add_answer_of(struct addition_filter *addition, struct request *request, struct str uri)
{
    struct subrequest sub = {
        .uri = uri,
        .output = SUBREQUEST_INLINE,
        .filter = &addition->filter,
    };

    return uri.len == 0 || subrequest_run(request, &sub) != HANDLER_CLOSED;
}

static bool addition_send(struct body_filter *filter, struct request *request,
                          const struct body_piece *piece, bool is_last)
{
    struct addition_filter *addition = container_of(filter, struct addition_filter, filter);
    const struct addition_settings *settings = addition->settings;

    if (!addition->has_begun) {
        addition->has_begun = true;
        if (!add_answer_of(addition, request, settings->before)) {
            if (piece != NULL && piece->release != NULL) {
                piece->release(piece->release_arg);
            }
            return false;
        }
    }
    if (!is_last || settings->after.len == 0) {
        return body_filter_next(filter, request, piece, is_last);
    }
    return body_filter_next(filter, request, piece, false) &&
           add_answer_of(addition, request, settings->after) &&
           body_filter_next(filter, request, NULL, true);
}

static void addition_header(struct request *request)
{
    const struct addition_settings *settings = addition_settings_at(request->location);
    struct response *response = &request->response;

    if (response->status != 200 || request != request->main ||
        !type_set_has(settings->types, response->content_type)) {
        return;
    }
    response_change_body(request, true);
    if (response->is_header_only) {
        return;
    }
    struct addition_filter *addition = arena_new(&request->arena, struct addition_filter);
    addition->filter.send = addition_send;
    addition->settings = settings;
    response_append_filter(request, &addition->filter);
}

static bool addition_is_active(const struct http_location *location)
{
    const struct addition_settings *settings = addition_settings_at(location);

    return settings->before.len != 0 || settings->after.len != 0;
}

#define S struct addition_settings
static const struct directive addition_rows[] = {
    {"add_before_body", IN_HTTP_ALL, STRING(S, before), .syntax = "uri",
     .doc = "Adds the response to a subrequest for this URI before the body of responses "
            "with status 200. An empty value disables it."},
    {"add_after_body", IN_HTTP_ALL, STRING(S, after), .syntax = "uri",
     .doc = "Adds the response to a subrequest for this URI after the body of responses "
            "with status 200. An empty value disables it."},
    {"addition_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/html", .syntax = "mime-type ...",
     .doc = "Media types of responses that are changed, in addition to text/html; * "
            "matches any type."},
    {0},
};
#undef S

/* After all filters that change the body itself, so that they do not change what is added. */
static const struct filter_hook addition_filters[] = {
    {.name = "addition", .run = addition_header, .is_active = addition_is_active},
    {.run = NULL},
};
static const struct http_module addition_hooks = {.filters = addition_filters};

const struct module ngx_http_addition_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_addition_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &addition_key,
              .rows = addition_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct addition_settings)},
    .hooks = &addition_hooks,
};
