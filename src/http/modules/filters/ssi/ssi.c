/* ngx_http_ssi_filter_module: server side includes in responses. */
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "http/files/file.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "http/modules/filters/ssi/ssi.h"
#include "http/message/type_set.h"
#include "http/variables/variables.h"
#include "server/module.h"

#define S struct ssi_settings
static const struct directive rows[] = {
    {"ssi", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, is_on), .initial = "off",
     .doc = "Enables processing of SSI commands in responses."},
    {"ssi_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .initial = "text/html", .repeat = REPEAT_APPEND, .syntax = "type ... | *",
     .doc = "Media types of responses that are processed, in addition to text/html; * "
            "matches any type."},
    {"ssi_silent_errors", IN_HTTP_ALL, FLAG(S, is_silent), .initial = "off",
     .doc = "Whether the error message is omitted from the output if a command is wrong."},
    {"ssi_last_modified", IN_HTTP_ALL, FLAG(S, keeps_last_modified), .initial = "off",
     .doc = "Whether Last-Modified and, as a weak one, ETag of the response are kept."},
    {"ssi_value_length", IN_HTTP_ALL, SIZE(S, value_length), .initial = "256", .min = 0,
     .max = 1024 * 1024, .doc = "Maximum length of a parameter value in an SSI command."},
    {"ssi_min_file_chunk", IN_HTTP_ALL, SIZE(S, min_file_chunk), .initial = "1k",
     .doc = "Accepted and ignored: a page is read into memory, and its includes are sent "
            "like separate responses."},
    {"ssi_ignore_recycled_buffers", IN_HTTP_ALL, FLAG(S, ignores_recycled), .initial = "off",
     .doc = "Accepted and ignored: buffers do not wait for an include."},
    {0},
};
#undef S

static struct settings_key key;

const struct ssi_settings *ssi_settings_at(const struct http_location *location)
{
    return location_settings(location, &key);
}

/* The page that is in progress for this request, or NULL. */
static struct ssi_page *page_of(struct request *request)
{
    return request_data(request, &key, 0);
}

/* ---- the filter ---- */

/* Is the piece text only, so that it can be passed on unchanged? */
static bool is_plain(const struct ssi_page *page, const struct body_piece *piece)
{
    return page->scanner.state == SSI_IN_TEXT && page->output_size == 0 &&
           page->open_block == NULL && !ssi_is_skipping(page) && piece->bytes.len != 0 &&
           str_find_char(piece->bytes, '<') == NULL;
}

static bool ssi_send(struct body_filter *filter, struct request *request,
                     const struct body_piece *piece, bool is_last)
{
    struct ssi_page *page = container_of(filter, struct ssi_page, filter);

    if (piece != NULL && !page->is_dead && is_plain(page, piece)) {
        ssi_send_piece(page, piece, is_last);
        return !page->is_dead;
    }
    if (piece != NULL) {
        ssi_page_put(page, piece->bytes);
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
    }
    if (is_last) {
        ssi_page_end(page);
    }
    ssi_output_flush(page, piece != NULL && piece->is_flush, is_last);
    return !page->is_dead;
}

static void ssi_header(struct request *request)
{
    struct response *response = &request->response;
    const struct ssi_settings *settings = ssi_settings_at(request->location);

    if (response->content_length == 0 || response->framing == FRAMING_TUNNEL ||
        !type_set_has(settings->types, response->content_type)) {
        return;
    }
    struct ssi_page *page = request_data(request, &key, sizeof(*page));
    ssi_page_free(page); /* the page of a response that an error page replaces */
    ssi_page_begin(page, request, settings);
    response_change_body(request, settings->keeps_last_modified);
    if (!response->is_header_only) {
        page->filter.send = ssi_send;
        response_needs_memory(request);
        response_append_filter(request, &page->filter);
    }
}

/* ---- $date_local, $date_gmt ---- */

/* data: 1 = GMT. The format is that of the page's `config`, or the default. */
static bool get_date(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct ssi_page *page = page_of(variable_request(env));
    struct str format = page != NULL ? page->timefmt : STR(SSI_DEFAULT_TIMEFMT);
    time_t now = clock_now.seconds;
    struct tm parts;

    if (str_is(format, "%s")) {
        return variable_give_number(env, out, (uint64_t) now);
    }
    if (variable->data == 1) {
        gmtime_r(&now, &parts);
    } else {
        localtime_r(&now, &parts);
    }
    char *text = arena_text(env->arena, SSI_DATE_MAX);
    size_t size = strftime(text, SSI_DATE_MAX, format.data, &parts);
    return variable_give(out, (struct str){text, size});
}

static const struct variable variables[] = {
    {.name = STR_INIT("date_local"),
     .doc = "Local time, in the format of the SSI command config.",
     .get = get_date,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("date_gmt"),
     .doc = "Current time in GMT, in the format of the SSI command config.",
     .get = get_date,
     .flags = VARIABLE_VOLATILE,
     .data = 1},
    {.name = {NULL, 0}},
};

static const struct filter_hook filters[] = {
    {.name = "ssi", .run = ssi_header, .when = SETTING(key, struct ssi_settings, is_on)},
    {.run = NULL},
};
static const struct http_module hooks = {.variables = variables, .filters = filters};

const struct module ngx_http_ssi_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_ssi_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct ssi_settings)},
    .hooks = &hooks,
};
