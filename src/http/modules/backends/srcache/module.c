/* ngx_http_srcache_filter_module: stores responses in other locations, such as those of memc and
 * redis2, and gets them from there. */
#include "base/parse.h"
#include "http/modules/backends/srcache/srcache.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct settings_key srcache_key;

uint64_t srcache_most(const struct srcache_settings *settings)
{
    return settings->max_size != 0 ? settings->max_size : SRCACHE_MOST;
}

bool srcache_aim(struct request *request, const struct srcache_call *call, struct subrequest *sub)
{
    struct str text = template_text(call->uri, &request->env);

    if (!subrequest_aim(request, text, sub) || sub->uri.len == 0) {
        log_error(&request->log, 0, "srcache sees an unsafe uri: \"%.*s\"", STR_ARG(text));
        return false;
    }
    if (call->args != NULL) {
        sub->args = template_text(call->args, &request->env);
    }
    sub->method = call->method;
    return true;
}

/* ---- variables ---- */

static const struct str status_names[] = {[SRCACHE_BYPASS] = STR_INIT("BYPASS"),
                                          [SRCACHE_HIT] = STR_INIT("HIT"),
                                          [SRCACHE_MISS] = STR_INIT("MISS"),
                                          [SRCACHE_STORE] = STR_INIT("STORE")};

static bool get_fetched(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct srcache_run *run = request_data(variable_request(env)->main, &srcache_key, 0);

    return variable_give(out, status_names[run == NULL ? SRCACHE_BYPASS : run->fetched]);
}

static bool get_stored(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct srcache_run *run = request_data(variable_request(env)->main, &srcache_key, 0);

    return variable_give(out, status_names[run == NULL ? SRCACHE_BYPASS : run->stored]);
}

static bool get_expire(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env)->main;
    bool is_storable;

    return request->response.status != 0 &&
           variable_give_number(env, out, srcache_lifetime(request, &is_storable));
}

static const struct variable srcache_variables[] = {
    {.name = STR_INIT("srcache_fetch_status"),
     .doc = "Result of srcache_fetch: HIT, MISS or BYPASS.",
     .get = get_fetched,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("srcache_store_status"),
     .doc = "Result of srcache_store: STORE or BYPASS.",
     .get = get_stored,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("srcache_expire"),
     .doc = "Time in seconds for which the response may be stored.",
     .get = get_expire,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

static bool read_call(struct conf_scope *scope, const struct conf_node *node,
                      struct srcache_call *call)
{
    *call = (struct srcache_call){.method = node->args[1]};
    if (method_named(node->args[1]) == METHOD_OTHER) {
        return conf_error(scope->conf, node, "\"%.*s\" specifies bad HTTP method \"%.*s\"",
                          STR_ARG(node->args[0]), STR_ARG(node->args[1]));
    }
    return conf_value_template(scope, node, 2, &call->uri) &&
           (node->count < 4 || conf_value_template(scope, node, 3, &call->args));
}

static bool fetch_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return read_call(scope, node, &((struct srcache_settings *) settings)->fetch);
}

static bool store_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return read_call(scope, node, &((struct srcache_settings *) settings)->store);
}

static bool statuses_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct srcache_settings *srcache = settings;

    srcache->statuses = (struct vec){0};
    for (unsigned i = 1; i < node->count; i++) {
        uint64_t number;
        if (!parse_uint(node->args[i], &number) || number < 200 || number > 999) {
            return conf_error(scope->conf, node, "status code \"%.*s\" is an invalid number",
                              STR_ARG(node->args[i]));
        }
        *vec_add(&srcache->statuses, scope->conf->arena, unsigned) = (unsigned) number;
    }
    return true;
}

/* clang-format off */
static const struct directive_word method_words[] = {
    {"GET", METHOD_GET},
    {"HEAD", METHOD_HEAD},
    {"POST", METHOD_POST},
    {"PUT", METHOD_PUT},
    {"DELETE", METHOD_DELETE},
    {NULL, 0},
};
/* clang-format on */

#define HERE IN_HTTP_ALL | IN_LOCATION_IF
#define S struct srcache_settings
static const struct directive srcache_rows[] = {
    {"srcache_fetch", HERE, CUSTOM_FIELD(S, fetch, fetch_apply), ARGS(2, 3),
     .syntax = "method uri [args]",
     .doc = "Fetches the response by a subrequest to this URI. A status of 200 is a hit: "
            "the body of the subrequest is the response, including the header, as saved by "
            "`srcache_store`; otherwise processing of the request continues. Access is "
            "checked before."},
    {"srcache_fetch_skip", HERE, TEMPLATES(S, fetch_skip), ARGS(1, 1), .syntax = "flag",
     .doc = "Condition under which nothing is fetched: the string is neither empty nor "
            "\"0\"."},
    {"srcache_store", HERE, CUSTOM_FIELD(S, store, store_apply), ARGS(2, 3),
     .syntax = "method uri [args]",
     .doc = "Sends the response, including its header, as the body of a subrequest to this "
            "URI when it is complete. The client does not wait for it. What is stored is "
            "the response of the backend with the changes made by headers-more and Lua, "
            "before filters such as `sub_filter` or `gzip` are applied."},
    {"srcache_store_skip", HERE, TEMPLATES(S, store_skip), ARGS(1, 1), .syntax = "flag",
     .doc = "Condition under which nothing is stored: the string is neither empty nor "
            "\"0\". It is evaluated when the response begins, and again when it has ended."},
    {"srcache_store_max_size", HERE, SIZE(S, max_size), .initial = "0",
     .doc = "Largest size of the body of a response that is stored or taken from the store; "
            "0: 4 megabytes."},
    {"srcache_store_statuses", HERE, CUSTOM_FIELD(S, statuses, statuses_apply), ARGS(1, ARGS_ANY),
     .initial = "200 301 302 307 308", .syntax = "status ...",
     .doc = "Statuses of responses that are stored."},
    {"srcache_store_ranges", HERE, FLAG(S, stores_ranges), .initial = "off",
     .doc = "Whether partial responses (206) are stored, too. The key must then contain "
            "`$http_range`; otherwise a part is returned in place of the whole."},
    {"srcache_store_hide_header", HERE, STRINGS(S, hidden), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "field ...", .doc = "Header fields that are not stored."},
    {"srcache_store_pass_header", HERE, STRINGS(S, passed), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "field ...",
     .doc = "Header fields that are stored although they are not by default: Set-Cookie, "
            "Proxy-Authenticate, Proxy-Authorization, TE. Hop-by-hop fields are never "
            "stored."},
    {"srcache_methods", IN_HTTP_ALL, BITS(S, methods, method_words), .initial = "GET HEAD",
     .doc = "Methods of requests for which the store is queried, in addition to GET and "
            "HEAD. HEAD requests receive the header of a stored response; their own "
            "responses are not stored."},
    {"srcache_ignore_content_encoding", HERE, FLAG(S, stores_codings), .initial = "off",
     .doc = "Whether responses with a Content-Encoding are stored, too, regardless of what "
            "clients accept. Otherwise they are not stored, and a warning is logged."},
    {"srcache_request_cache_control", HERE, FLAG(S, heeds_request), .initial = "off",
     .doc = "Whether Cache-Control and Pragma of requests are respected: with `no-cache` "
            "the store is not queried; with `no-store` the response is not stored."},
    {"srcache_response_cache_control", HERE, FLAG(S, heeds_response), .initial = "on",
     .doc = "Whether Cache-Control and Expires of responses are respected: a response that "
            "forbids it (private, no-store, no-cache, max-age=0) is not stored."},
    {"srcache_store_private", HERE, FLAG(S, stores_private), .initial = "off",
     .doc = "Whether responses with `Cache-Control: private` are stored."},
    {"srcache_store_no_store", HERE, FLAG(S, stores_no_store), .initial = "off",
     .doc = "Whether responses with `Cache-Control: no-store` are stored."},
    {"srcache_store_no_cache", HERE, FLAG(S, stores_no_cache), .initial = "off",
     .doc = "Whether responses with `Cache-Control: no-cache` are stored."},
    {"srcache_default_expire", HERE, SEC(S, default_expire), .initial = "60",
     .doc = "Value of `$srcache_expire`, in seconds, for responses that define no lifetime."},
    {"srcache_max_expire", HERE, SEC(S, max_expire), .initial = "0",
     .doc = "Largest value of `$srcache_expire`; 0: no limit."},
    {"srcache_header_buffer_size", HERE, SIZE(S, head_size), .max = 1 << 20, .initial = "4k",
     .doc = "Initial size of the buffer for the header of a stored response; it grows as "
            "needed."},
    {"srcache_buffer", HERE, SIZE(S, piece_size), .max = 1 << 20, .initial = "4k",
     .doc = "Initial size of the buffer for the body of a stored response; it grows as "
            "needed."},
    {0},
};
#undef S
#undef HERE

static const struct phase_hook srcache_phases[] = {
    {.phase = PHASE_PRECONTENT,
     .name = "srcache",
     .before = "try_files",
     .run = srcache_fetch,
     .when = SETTING(srcache_key, struct srcache_settings, fetch.method.len)},
    {.run = NULL},
};

/* Runs after headers_more and Lua, whose changes are stored, as in OpenResty: a script can forbid
 * storing with Cache-Control. Filters that change bodies run after it. */
static const struct filter_hook srcache_filters[] = {
    {.name = "srcache",
     .run = srcache_store,
     .when = SETTING(srcache_key, struct srcache_settings, store.method.len)},
    {.run = NULL},
};
static const struct http_module srcache_hooks = {.variables = srcache_variables,
                                                 .phases = srcache_phases,
                                                 .filters = srcache_filters};

const struct module ngx_http_srcache_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_srcache_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &srcache_key,
              .rows = srcache_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct srcache_settings)},
    .hooks = &srcache_hooks,
};
