/* ngx_http_footer_filter_module: appends a text to response bodies. */
#include "http/message/type_set.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

struct footer_settings {
    struct template *text; /* NULL = none */
    struct type_set *types;
};

static struct settings_key footer_key;

TYPED_SETTINGS(footer_settings_at, struct footer_settings, footer_key, struct http_location)

/* Per response, in the request's arena. */
struct footer_filter {
    struct body_filter filter;
    struct str text;
};

static bool footer_send(struct body_filter *filter, struct request *request,
                        const struct body_piece *piece, bool is_last)
{
    const struct footer_filter *footer = container_of(filter, struct footer_filter, filter);
    const struct body_piece text = {.bytes = footer->text, .fd = -1};

    if (!is_last) {
        return body_filter_next(filter, request, piece, false);
    }
    return (piece == NULL || body_filter_next(filter, request, piece, false)) &&
           body_filter_next(filter, request, &text, true);
}

/* Can a text be appended to the body? Not to a part of one, nor to an encoded one. */
static bool footer_fits(const struct request *request, const struct footer_settings *settings)
{
    const struct response *response = &request->response;

    return request == request->main && response->framing != FRAMING_TUNNEL &&
           response->status != 204 && response->status != 206 && response->status != 304 &&
           fields_get(&response->fields, FIELD_CONTENT_ENCODING) == NULL &&
           type_set_has(settings->types, response->content_type);
}

static void footer_header(struct request *request)
{
    const struct footer_settings *settings = footer_settings_at(request->location);
    struct response *response = &request->response;
    int64_t length = response->content_length;

    if (!footer_fits(request, settings)) {
        return;
    }
    struct str text = template_text(settings->text, &request->env);
    if (text.len == 0) {
        return;
    }
    response_change_body(request, true);
    response->content_length = length == -1 ? -1 : length + (int64_t) text.len;
    if (response->is_header_only) {
        return;
    }
    struct footer_filter *footer = arena_new(&request->arena, struct footer_filter);
    footer->filter.send = footer_send;
    footer->text = text;
    response_append_filter(request, &footer->filter);
}

#define S struct footer_settings
static const struct directive footer_rows[] = {
    {"footer", IN_HTTP_ALL, TEMPLATE(S, text), .syntax = "string",
     .doc = "Adds this text after the body of responses that are neither encoded nor "
            "partial. Its variables are evaluated when the header is sent. An empty value "
            "disables it."},
    {"footer_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/html", .syntax = "mime-type ...",
     .doc = "Media types of responses to which the footer is added, in addition to "
            "text/html; * matches any type."},
    {0},
};
#undef S

static const struct filter_hook footer_filters[] = {
    {.name = "footer",
     .run = footer_header,
     .when = SETTING(footer_key, struct footer_settings, text)},
    {.run = NULL},
};
static const struct http_module footer_hooks = {.filters = footer_filters};

const struct module ngx_http_footer_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_footer_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &footer_key,
              .rows = footer_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct footer_settings)},
    .hooks = &footer_hooks,
};
