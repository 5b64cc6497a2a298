/* ngx_http_trim_filter_module: removes invisible white space and comments from HTML. */
#include <stdlib.h>

#include "base/buf.h"
#include "http/files/file.h"
#include "http/message/type_set.h"
#include "http/modules/filters/trim/trimmer.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* Each template is on if its value is "on". */
struct trim_settings {
    struct template *html;
    struct template *scripts;
    struct template *styles;
    struct type_set *types;
};

static struct settings_key trim_key;

TYPED_SETTINGS(trim_settings_at, struct trim_settings, trim_key, struct http_location)

/* Per response, in the request's arena. */
struct trim_filter {
    struct body_filter filter;
    struct trimmer trimmer;
    uint64_t taken; /* bytes of the body before trimming */
    uint64_t given; /* bytes of the body after trimming */
};

static bool is_on(struct request *request, const struct template *text)
{
    return str_is(template_text(text, &request->env), "on");
}

/* Does the client request the unchanged page with ?http_trim=off? */
static bool is_declined(const struct request *request)
{
    struct str value;

    return request_argument(request, STR("http_trim"), &value) && str_is(value, "off");
}

static bool trim_give(struct trim_filter *trim, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct str in = piece == NULL ? STR_NONE : piece->bytes;
    bool is_flush = piece != NULL && piece->is_flush;
    struct buf out = {0};

    char *start = buf_reserve(&out, in.len + TRIM_HELD);
    char *end = trimmer_feed(&trim->trimmer, in, is_last, start);
    trim->taken += in.len;
    trim->given += (uint64_t) (end - start);
    const struct body_piece given = {.bytes = str_from(start, end),
                                     .fd = -1,
                                     .is_flush = is_flush,
                                     .release = free,
                                     .release_arg = out.data};
    if (end != start) {
        return body_filter_next(&trim->filter, request, &given, is_last);
    }
    buf_free(&out);
    const struct body_piece flush = {.fd = -1, .is_flush = true};
    return (!is_last && !is_flush) ||
           body_filter_next(&trim->filter, request, is_flush ? &flush : NULL, is_last);
}

static bool trim_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    bool is_sound =
        trim_give(container_of(filter, struct trim_filter, filter), request, piece, is_last);

    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

static void trim_header(struct request *request)
{
    const struct trim_settings *settings = trim_settings_at(request->location);
    struct response *response = &request->response;

    if (response->status != 200 || response->framing == FRAMING_TUNNEL ||
        fields_get(&response->fields, FIELD_CONTENT_ENCODING) != NULL ||
        !type_set_has(settings->types, response->content_type) || !is_on(request, settings->html) ||
        is_declined(request)) {
        return;
    }
    response_change_body(request, true);
    if (response->is_header_only) {
        return;
    }
    struct trim_filter *trim = request_data(request, &trim_key, sizeof(*trim));
    *trim = (struct trim_filter){
        .filter.send = trim_send,
        .trimmer = {.trims_scripts = is_on(request, settings->scripts),
                    .trims_styles = is_on(request, settings->styles)},
    };
    response_needs_memory(request);
    response_append_filter(request, &trim->filter);
}

static bool trim_is_active(const struct http_location *location)
{
    const struct template *html = trim_settings_at(location)->html;

    return !html->is_constant || str_is(html->constant, "on");
}

/* data: 1 = $trim_original_bytes. */
static bool get_bytes(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct trim_filter *trim = request_data(variable_request(env), &trim_key, 0);

    return trim != NULL &&
           variable_give_number(env, out, variable->data == 1 ? trim->taken : trim->given);
}

static const struct variable trim_variables[] = {
    {.name = STR_INIT("trim_bytes"),
     .doc = "Size of the body after `trim`.",
     .get = get_bytes,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("trim_original_bytes"),
     .doc = "Size of the body before `trim`.",
     .get = get_bytes,
     .data = 1,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

#define S struct trim_settings
static const struct directive trim_rows[] = {
    {"trim", IN_HTTP_ALL, TEMPLATE(S, html), .initial = "off", .syntax = "on | off | string",
     .doc = "Removes white space that has no effect and comments from HTML if the value is "
            "`on`. `pre`, `textarea`, scripts, styles, and comments of SSI, ESI and "
            "Internet Explorer are not changed. A request with the argument http_trim=off "
            "gets the unchanged page."},
    {"trim_js", IN_HTTP_ALL, TEMPLATE(S, scripts), .initial = "off", .syntax = "on | off | string",
     .doc = "Whether the contents of `<script>` and `<script type=\"text/javascript\">` "
            "are trimmed, too."},
    {"trim_css", IN_HTTP_ALL, TEMPLATE(S, styles), .initial = "off", .syntax = "on | off | string",
     .doc = "Whether the contents of `<style>` and `<style type=\"text/css\">` are "
            "trimmed, too."},
    {"trim_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/html", .syntax = "mime-type ...",
     .doc = "Media types of responses that are trimmed as HTML, in addition to text/html; "
            "* matches any type."},
    {0},
};
#undef S

static const struct filter_hook trim_filters[] = {
    {.name = "trim", .run = trim_header, .is_active = trim_is_active},
    {.run = NULL},
};
static const struct http_module trim_hooks = {
    .variables = trim_variables,
    .filters = trim_filters,
};

const struct module ngx_http_trim_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_trim_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &trim_key,
              .rows = trim_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct trim_settings)},
    .hooks = &trim_hooks,
};
