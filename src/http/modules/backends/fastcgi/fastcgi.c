/* ngx_http_fastcgi_module: passes requests to FastCGI servers. */
#include "config.h"
#include "http/exchange/cache/rows.h"
#include "http/routing/hooks.h"
#include "http/modules/backends/fastcgi/fastcgi.h"
#include "http/variables/variables.h"
#include "server/module.h"

static struct settings_key fastcgi_key;
static struct settings_key fastcgi_family_key;
static const struct exchange_family fastcgi_family;

/* ---- the handler ---- */

/* A process may end after any request (pm.max_requests); with one connection per request, as in
 * nginx, that is harmless. */
static bool keeps_unasked(const struct exchange *x)
{
    return fastcgi_settings_of(x)->keep_conn == KEEP_CONN_AUTO;
}

static const struct protocol fastcgi_protocol = {
    .family = &fastcgi_family,
    .name = STR_INIT("fastcgi"),
    .scheme = STR_INIT("fastcgi://"),
    .channel = &fastcgi_channel,
    .wants_length = true,
    .keeps_unasked = keeps_unasked,
    .make_request = fastcgi_make_request,
    .send_head = fastcgi_send_head,
    .send_body = fastcgi_send_body,
    .read_head = fastcgi_read_head,
    .read_body = fastcgi_read_body,
    .body_ended = fastcgi_body_ended,
    .wants_whole_connection = fastcgi_wants_whole_connection,
    .open_max = fastcgi_open_max,
};

static enum handler_result fastcgi_answer(struct request *request)
{
    const struct fastcgi_settings *own = location_settings(request->location, &fastcgi_key);
    struct exchange *x =
        exchange_new(request, &fastcgi_protocol,
                     location_settings(request->location, &fastcgi_family_key), own);

    exchange_set_target(x, &own->target);
    x->is_chunked_out = true; /* STDIN records need no length */
    return exchange_run(x);
}

/* ---- variables ---- */

/* The parts of the URI according to fastcgi_split_path_info; false: it does not match, or there is
 * none. */
static bool split(struct request *request, struct str *script, struct str *path_info)
{
    const struct fastcgi_settings *own = location_settings(request->location, &fastcgi_key);
    struct variable_env env =
        request->env; /* so that the captures do not replace those of the request */

    if (own->split == NULL || !regex_match(own->split, request->uri, &env, &request->log) ||
        env.capture_count < 3) {
        return false;
    }
    *script = env.captures[1];
    *path_info = env.captures[2];
    return true;
}

static bool get_script_name(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct request *request = variable_request(env);
    const struct fastcgi_settings *own = location_settings(request->location, &fastcgi_key);
    struct str script = request->uri;
    struct str path_info;

    split(request, &script, &path_info);
    if (own->index.len != 0 && script.len != 0 && script.data[script.len - 1] == '/') {
        script = arena_concat(&request->arena, script, own->index);
    }
    return variable_give(out, script);
}

static bool get_path_info(struct variable_env *env, const struct variable *variable,
                          struct str *out)
{
    struct str script;

    if (!split(variable_request(env), &script, out)) {
        *out = STR_NONE;
    }
    return true;
}

/* nginx computes these at each use, because internal redirects change them. */
const struct variable fastcgi_variables[] = {
    {.name = STR_INIT("fastcgi_script_name"),
     .doc = "URI of the request, with `fastcgi_index` appended if it ends with a slash; or "
            "the first capture of `fastcgi_split_path_info`.",
     .get = get_script_name,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("fastcgi_path_info"),
     .doc = "The second capture of `fastcgi_split_path_info`.",
     .get = get_path_info,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("")},
};

/* ---- directives ---- */

static bool fastcgi_pass_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct fastcgi_settings *own = settings;
    struct str address = node->args[1];

    return pass_target_read(scope, node, address, 0, &own->target) &&
           pass_handler_set(scope, node, fastcgi_answer);
}

static bool split_path_info_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct fastcgi_settings *own = settings;
    struct str pattern = node->args[1];

    own->split = regex_compile(scope->conf, node, pattern, false, true);
    if (own->split == NULL) {
        return false;
    }
    if (regex_capture_count(own->split) != 2) {
        return conf_error(scope->conf, node, "pattern \"%.*s\" must have 2 captures",
                          STR_ARG(pattern));
    }
    return true;
}

/* A location that inherits its parameters shares the plan of its parent. */
static bool fastcgi_finish(struct conf_scope *scope, void *settings)
{
    struct fastcgi_settings *own = settings;

    conf_list_inherit(scope, &PARAM_LIST("fastcgi", struct fastcgi_settings, list, fastcgi_key),
                      own->inherit);
    if (own->plan == NULL || own->plan_of != own->list.items ||
        own->plan_count != own->list.count) {
        own->plan = fastcgi_plan_new(scope->conf, &own->list);
        own->plan_of = own->list.items;
        own->plan_count = own->list.count;
    }
    return true;
}

static const struct directive_word keep_conn_words[] = {
    {"on", KEEP_CONN_ON},
    {"off", KEEP_CONN_OFF},
    {"auto", KEEP_CONN_AUTO},
    {NULL, 0},
};

#define S struct fastcgi_settings
static const struct directive fastcgi_rows[] = {
    {"fastcgi_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, fastcgi_pass_apply),
     ARGS(1, 1), .syntax = "address",
     .doc = "Passes requests to a FastCGI server or a group of them."},
    {"fastcgi_index", IN_HTTP_ALL, STRING(S, index),
     .doc = "File name that is appended to a URI that ends with a slash, in "
            "`$fastcgi_script_name`."},
    PARAM_ROW("fastcgi", S, list),
    PARAM_INHERIT_ROW("fastcgi", S, inherit),
    {"fastcgi_split_path_info", IN_HTTP_ALL, CUSTOM_FIELD(S, split, split_path_info_apply),
     ARGS(1, 1), .repeat = REPEAT_CUSTOM, .syntax = "regex",
     .doc = "Regular expression with two captures, which become `$fastcgi_script_name` and "
            "`$fastcgi_path_info`."},
    {"fastcgi_keep_conn", IN_HTTP_ALL, ENUM(S, keep_conn, keep_conn_words), .initial = "auto",
     .doc = "Whether connections are kept open for further requests. With `auto` the "
            "backend is queried once, after the first request (FCGI_GET_VALUES): "
            "connections are kept if it reports a limit of connections, or that it can "
            "multiplex requests on a connection."},
    {"fastcgi_catch_stderr", IN_HTTP_ALL, STRINGS(S, catch_stderr), ARGS(1, 1),
     .repeat = REPEAT_APPEND,
     .doc = "String that makes a response invalid when the backend writes it to stderr."},
    {0},
};
#undef S

static const struct directive fastcgi_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("fastcgi", cgi_next_upstream_words),
    EXCHANGE_ALLOW_ROW("fastcgi"),
    EXCHANGE_DYNAMIC_ROW("fastcgi"),
    EXCHANGE_TENGINE_TRIES_ROW("fastcgi"),
    EXCHANGE_SOCKET_ROWS("fastcgi"),
    EXCHANGE_TENGINE_SOCKET_ROWS("fastcgi"),
    EXCHANGE_BODY_ROWS("fastcgi"),
    EXCHANGE_CACHE_ROWS("fastcgi", cgi_cache_use_stale_words),
    {0},
};

static const struct directive_table fastcgi_table = {.key = &fastcgi_key,
                                                     .rows = fastcgi_rows,
                                                     .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                     .size = sizeof(struct fastcgi_settings),
                                                     .finish = fastcgi_finish};
static const struct exchange_family fastcgi_family = {
    .prefix = "fastcgi",
    .table = EXCHANGE_TABLE(fastcgi_family_key, fastcgi_family_rows, exchange_settings_finish),
    .temp_path = STR_INIT(DEFAULT_FASTCGI_TEMP),
    .hidden_ids = HIDDEN_OF_CGI,
    .cache_hook = &response_cache_hook,
};
static const struct directive_table *const fastcgi_tables[] = {&fastcgi_table,
                                                               &fastcgi_family.table, NULL};

/* With max_conns, further requests wait in order of arrival, as they do for FCGI_MAX_CONNS; a
 * `queue` of the group takes precedence. Requests do not wait for servers that have failed. */
#define WAITING_MAX 10000
#define WAITING_TIMEOUT_MS 60000

static bool let_requests_wait(struct conf *conf, struct http_main *main)
{
    vec_each(struct http_location *, location, &main->locations) {
        struct upstream_group *group = (*location)->content.group;

        if ((*location)->content.run == fastcgi_answer && group != NULL && group->queue_max == 0) {
            group->queue_max = WAITING_MAX;
            group->queue_timeout_ms = WAITING_TIMEOUT_MS;
            group->queues_at_max_conns = true;
        }
    }
    return true;
}

static const struct http_module fastcgi_hooks = {
    .variables = fastcgi_variables,
    .end = let_requests_wait,
};

const struct module ngx_http_fastcgi_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_fastcgi_module",
    .kind = MODULE_HTTP,
    .tables = fastcgi_tables,
    .hooks = &fastcgi_hooks,
};
