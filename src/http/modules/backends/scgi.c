/* ngx_http_scgi_module: passes requests to SCGI servers (python.ca/scgi/protocol.txt). */
#include "config.h"
#include "base/parse.h"
#include "http/exchange/cache/rows.h"
#include "http/exchange/heads/params.h"
#include "http/exchange/heads/plain.h"
#include "server/module.h"

/* Settings of a location, besides those of the family. */
struct scgi_settings {
    struct pass_target target;
    struct vec list;             /* struct param: scgi_param */
    unsigned inherit;            /* an enum list_inherit, for `list` */
    const struct params *params; /* derived: `list`, compiled */
};

static struct settings_key scgi_key;
static struct settings_key scgi_family_key;
static const struct exchange_family scgi_family;

#define LENGTH_NAME "CONTENT_LENGTH"

/* ---- the request ---- */

static bool has_zero(struct str s)
{
    return s.len != 0 && memchr(s.data, '\0', s.len) != NULL;
}

/* Can the parameter be a header? Not if it has a zero byte, which separates headers; and the length
 * is written before all others. */
static bool is_framable(struct exchange *x, const struct param_value *param)
{
    if (str_is(param->name, LENGTH_NAME)) {
        return false;
    }
    if (has_zero(param->value) || has_zero(param->name)) {
        log_error(&x->request->log, 0, "scgi_param \"%.*s\" holds a zero byte and is left out",
                  STR_ARG(param->name));
        return false;
    }
    return true;
}

static char *put_header(char *at, struct str name, struct str value)
{
    at = str_put(at, name);
    *at++ = '\0';
    at = str_put(at, value);
    *at++ = '\0';
    return at;
}

/* Makes a netstring of headers, each a name and a value with a zero byte after them. The body
 * follows. */
static bool scgi_make_request(struct exchange *x)
{
    const struct scgi_settings *own = x->module_settings;
    struct param_values params;
    char length[24];
    char prefix[24];

    params_evaluate(own->params, x, 0, &params);
    struct str length_text = str_from(length, format_uint(length, (uint64_t) sent_body_length(x)));
    size_t capacity = sizeof(LENGTH_NAME) + sizeof(length) + params.bytes + 2 * params.count;
    char *text = arena_text(&x->request->arena, sizeof(prefix) + capacity + 1);
    char *headers = text + sizeof(prefix);
    char *at = put_header(headers, STR(LENGTH_NAME), length_text);

    for (unsigned i = 0; i < params.count; i++) {
        if (is_framable(x, &params.items[i])) {
            at = put_header(at, params.items[i].name, params.items[i].value);
        }
    }
    char *prefix_end = format_uint(prefix, (uint64_t) (at - headers));
    *prefix_end++ = ':';
    *at++ = ',';
    size_t prefix_length = (size_t) (prefix_end - prefix);
    memcpy(headers - prefix_length, prefix, prefix_length);
    x->head = str_from(headers - prefix_length, at);
    return true;
}

static const struct protocol scgi_protocol = {
    .family = &scgi_family,
    .name = STR_INIT("scgi"),
    .channel = &whole_connection,
    .make_request = scgi_make_request,
    .begin_response = plain_begin_response,
    .read_head = plain_read_head,
    .read_body = plain_read_body,
    .body_ended = plain_body_ended,
};

static enum handler_result scgi_answer(struct request *request)
{
    const struct scgi_settings *own = location_settings(request->location, &scgi_key);

    return plain_handle(request, &scgi_protocol,
                        location_settings(request->location, &scgi_family_key), own, &own->target);
}

/* ---- directives ---- */

static bool scgi_pass_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct scgi_settings *own = settings;

    return pass_target_read(scope, node, node->args[1], 0, &own->target) &&
           pass_handler_set(scope, node, scgi_answer);
}

static bool scgi_finish(struct conf_scope *scope, void *settings)
{
    struct scgi_settings *own = settings;

    conf_list_inherit(scope, &PARAM_LIST("scgi", struct scgi_settings, list, scgi_key),
                      own->inherit);
    own->params = params_compile(scope->conf, &own->list);
    return true;
}

#define S struct scgi_settings
static const struct directive scgi_rows[] = {
    {"scgi_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, scgi_pass_apply),
     ARGS(1, 1), .syntax = "address",
     .doc = "Passes requests to an SCGI server or a group of them."},
    PARAM_ROW("scgi", S, list),
    PARAM_INHERIT_ROW("scgi", S, inherit),
    {0},
};
#undef S

static const struct directive scgi_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("scgi", cgi_next_upstream_words),
    EXCHANGE_ALLOW_ROW("scgi"),
    EXCHANGE_DYNAMIC_ROW("scgi"),
    EXCHANGE_TENGINE_TRIES_ROW("scgi"),
    EXCHANGE_SOCKET_BUFFER_ROWS("scgi"),
    EXCHANGE_BODY_ROWS("scgi"),
    EXCHANGE_CACHE_ROWS("scgi", cgi_cache_use_stale_words),
    {0},
};

static const struct directive_table scgi_table = {.key = &scgi_key,
                                                  .rows = scgi_rows,
                                                  .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                  .size = sizeof(struct scgi_settings),
                                                  .finish = scgi_finish};
static const struct exchange_family scgi_family = {
    .prefix = "scgi",
    .table = EXCHANGE_TABLE(scgi_family_key, scgi_family_rows, exchange_settings_finish),
    .temp_path = STR_INIT(DEFAULT_SCGI_TEMP),
    .hidden_ids = HIDDEN_OF_CGI,
    .cache_hook = &response_cache_hook,
};
static const struct directive_table *const scgi_tables[] = {&scgi_table, &scgi_family.table, NULL};

const struct module ngx_http_scgi_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_scgi_module",
    .kind = MODULE_HTTP,
    .tables = scgi_tables,
};
