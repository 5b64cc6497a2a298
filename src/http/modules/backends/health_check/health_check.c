/* ngx_http_upstream_hc_module: `health_check` in a location, as in nginx Plus, and `match`. */
#include "base/parse.h"
#include "http/exchange/exchange.h"
#include "http/exchange/h2/h2.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "http/modules/backends/health_check/match.h"
#include "http/routing/settings.h"
#include "server/module.h"
#include "shared/upstream/health_sync.h"
#include "upstream/settings/words.h"
#include "upstream/upstream.h"

/* One `health_check` directive. */
struct check_line {
    struct conf_node *node;
    struct health_settings health;
    struct store_sync_words sync;
    struct str uri;
    bool has_uri;
    bool is_grpc;            /* type=grpc */
    struct str grpc_service; /* or empty */
    struct grpc_probe grpc_probe;
    struct http_probe probe;
    struct match_use use;
    struct match *match;                   /* or NULL */
    const struct tls_client_settings *tls; /* of the location, if its group uses TLS */
    const struct upstream_group *group;
};

/* The directives of one location; never inherited. */
struct check_settings {
    struct vec lines; /* struct check_line * */
};

/* All health_check directives of the configuration. */
static struct vec *all_lines(struct conf *conf)
{
    return conf_state(conf, "http health_check", sizeof(struct vec));
}

/* ---- parameters ---- */

static bool health_check_invalid(struct conf *conf, const struct conf_node *node, struct str word)
{
    return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

/* Parses name=value; *is_known: there is such a parameter. */
static bool health_check_read_value(struct conf *conf, struct check_line *line, struct str name,
                                    struct str value, bool *is_known)
{
    struct health_settings *health = &line->health;

    *is_known = true;
    if (str_is(name, "keepalive_time")) {
        return parse_msec(value, &health->keepalive_time_ms);
    }
    if (str_is(name, "uri")) {
        line->has_uri = true;
        line->uri = value;
        return value.len != 0 && value.data[0] == '/' && str_find_char(value, ' ') == NULL &&
               str_find_char(value, '\n') == NULL && str_find_char(value, '\r') == NULL;
    }
    if (str_is(name, "match")) {
        health->name = value;
        line->match = value.len == 0 ? NULL : match_named(conf, line->node, value);
        return value.len != 0;
    }
    if (str_is(name, "grpc_service")) {
        line->grpc_service = value;
        return value.len != 0 && value.len <= PROBE_GRPC_TEXT_MAX;
    }
    if (str_is(name, "grpc_status")) {
        return word_read_number(value, 1, INT32_MAX, &line->grpc_probe.status);
    }
    *is_known = false;
    return false;
}

static bool health_check_read_word(struct conf *conf, struct check_line *line, struct str word)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');
    bool is_known = false;

    if (!store_sync_read(conf, line->node, word, false, &line->sync, &is_known)) {
        return false;
    }
    if (is_known || health_word_read(&line->health, word, &is_known)) {
        return true;
    }
    if (is_known) {
        return health_check_invalid(conf, line->node, word);
    }
    if (str_is(word, "type=grpc")) {
        line->is_grpc = true;
        return true;
    }
    if (str_is(word, "type=http")) {
        return true;
    }
    if (value.data == NULL || !health_check_read_value(conf, line, name, value, &is_known)) {
        return health_check_invalid(conf, line->node, word);
    }
    return true;
}

static bool health_check_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct check_settings *here = settings;
    struct check_line *line = arena_new(conf->arena, struct check_line);

    line->node = node;
    line->uri = STR("/");
    health_settings_init(&line->health);
    for (unsigned i = 1; i < node->count; i++) {
        if (!health_check_read_word(conf, line, node->args[i])) {
            return false;
        }
    }
    if (!health_words_check(conf, node, &line->health) ||
        !store_sync_check(conf, node, &line->sync)) {
        return false;
    }
    if (!line->is_grpc && (line->grpc_service.len != 0 || line->grpc_probe.status != 0)) {
        return conf_error(conf, node, "\"grpc_service\" and \"grpc_status\" need \"type=grpc\"");
    }
    if (line->is_grpc && (line->match != NULL || line->has_uri)) {
        return conf_error(conf, node, "\"type=grpc\" excludes \"match\" and \"uri\"");
    }
    *vec_add(&here->lines, conf->arena, struct check_line *) = line;
    return true;
}

/* ---- at the end of the location ---- */

/* The directive of this block that passes requests to a group; NULL = none. */
static const struct conf_node *find_pass(const struct conf_node *block)
{
    static const char *const names[] = {"proxy_pass",     "fastcgi_pass", "uwsgi_pass", "scgi_pass",
                                        "memcached_pass", "grpc_pass",    "tunnel_pass"};

    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (str_is(node->args[0], names[i])) {
                return node;
            }
        }
    }
    return NULL;
}

static struct str http_request(struct arena *arena, const struct check_line *line, struct str host,
                               bool keeps_conn)
{
    return arena_printf(arena,
                        "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n%sUser-Agent: Portunus (health "
                        "check)\r\n\r\n",
                        STR_ARG(line->uri), STR_ARG(host),
                        keeps_conn ? "" : "Connection: close\r\n");
}

static void make_http(struct conf *conf, struct check_line *line,
                      const struct upstream_group *group)
{
    line->health.type = STR("http");
    line->health.speak = probe_speak_http;
    line->probe.request = http_request(conf->arena, line, group->name, false);
    line->probe.request_kept = http_request(conf->arena, line, group->name, true);
}

static void add_param(struct vec *params, struct arena *arena, const char *name, struct str value)
{
    struct probe_param *param = vec_add(params, arena, struct probe_param);

    param->name = str_of(name);
    param->value = value;
}

/* Sets the parameters of a FastCGI request for the URI; SCRIPT_FILENAME is below a constant
 * root. */
static bool make_fastcgi(struct conf *conf, struct check_line *line,
                         const struct upstream_group *group, const struct http_location *location)
{
    struct str args = line->uri;
    struct str path = str_cut(&args, '?');
    bool has_root = location->files->root != NULL && location->files->root->is_constant &&
                    !location->files->is_alias;
    struct str root = has_root ? location->files->root->constant : STR("");
    struct vec params = {0};
    struct arena *arena = conf->arena;

    add_param(&params, arena, "GATEWAY_INTERFACE", STR("CGI/1.1"));
    add_param(&params, arena, "REQUEST_METHOD", STR("GET"));
    add_param(&params, arena, "SERVER_PROTOCOL", STR("HTTP/1.1"));
    add_param(&params, arena, "SCRIPT_FILENAME", arena_concat(arena, root, path));
    add_param(&params, arena, "SCRIPT_NAME", path);
    add_param(&params, arena, "DOCUMENT_URI", path);
    add_param(&params, arena, "DOCUMENT_ROOT", root);
    add_param(&params, arena, "REQUEST_URI", line->uri);
    add_param(&params, arena, "QUERY_STRING", args.data == NULL ? STR("") : args);
    add_param(&params, arena, "SERVER_NAME", group->name);
    add_param(&params, arena, "HTTP_HOST", group->name);
    line->health.type = STR("fastcgi");
    line->health.speak = probe_speak_fastcgi;
    if (!probe_fastcgi_request(arena, &params, false, &line->probe.request) ||
        !probe_fastcgi_request(arena, &params, true, &line->probe.request_kept)) {
        return conf_error(conf, line->node, "\"uri\" is too long");
    }
    return true;
}

/* Selects the protocol of the probe by the directive that passes requests to the group. */
static bool make_speak(struct conf *conf, struct check_line *line, const struct conf_node *pass,
                       const struct http_location *location)
{
    const struct upstream_group *group = location->content.group;

    line->health.speak_settings = &line->probe;
    line->probe.judge = match_judge;
    line->probe.judge_settings = &line->use;
    line->use.match = line->match;
    line->use.variables = conf_variables(conf);
    if (line->is_grpc && !str_is(pass->args[0], "grpc_pass")) {
        return conf_error(conf, line->node, "\"type=grpc\" needs \"grpc_pass\"");
    }
    if (line->is_grpc) {
        line->health.type = STR("grpc");
        line->health.speak = probe_speak_grpc;
        line->health.speak_settings =
            &line->grpc_probe; /* filled in when it is known whether TLS is used */
        return true;
    }
    if (str_is(pass->args[0], "proxy_pass")) {
        make_http(conf, line, group);
        return true;
    }
    if (str_is(pass->args[0], "fastcgi_pass")) {
        return make_fastcgi(conf, line, group, location);
    }
    if (line->match != NULL || line->has_uri) {
        return conf_error(conf, line->node,
                          "\"match\" and \"uri\" need \"proxy_pass\" or \"fastcgi_pass\": behind "
                          "\"%.*s\" connections are checked, not answers",
                          STR_ARG(pass->args[0]));
    }
    line->health.type = STR("tcp");
    return true;
}

static bool health_check_add_line(struct conf_scope *scope, struct check_line *line)
{
    struct conf *conf = scope->conf;
    const struct http_location *location = scope_location(scope);
    const struct conf_node *pass = find_pass(scope->node);

    if (pass == NULL || location->content.group == NULL) {
        return conf_error(conf, line->node,
                          "\"health_check\" needs a directive like \"proxy_pass\" to a group of "
                          "servers, without variables, in the same location");
    }
    if (!make_speak(conf, line, pass, location)) {
        return false;
    }
    line->tls = location->content.tls;
    line->group = location->content.group;
    line->health.error_log = &location->error_log;
    *vec_add(all_lines(conf), conf->arena, struct check_line *) = line;
    return health_add(conf, line->node, location->content.group, &line->health) &&
           health_sync_add(conf, line->node, &line->sync, location->content.group, &line->health);
}

static bool health_check_finish(struct conf_scope *scope, void *settings)
{
    struct check_settings *here = settings;
    bool is_ok = true;

    vec_each(struct check_line *const, line, &here->lines) {
        is_ok &= health_check_add_line(scope, *line);
    }
    return is_ok;
}

static void health_check_fresh(void *settings)
{
    ((struct check_settings *) settings)->lines = (struct vec){0};
}

/* Called after all match blocks were read. */
static bool health_check_end(struct conf *conf, struct http_main *main)
{
    if (!match_check_all(conf)) {
        return false;
    }
    vec_each(struct check_line *const, line, all_lines(conf)) {
        const struct tls_client_settings *tls = (*line)->tls;

        if (tls != NULL && tls->context != NULL) {
            (*line)->health.tls =
                tls_client_group_link(conf->arena, tls, (*line)->group,
                                      (*line)->is_grpc ? (struct str) H2_ALPN : STR_NONE);
        }
        if ((*line)->is_grpc &&
            !probe_grpc_request(conf->arena, (*line)->group->name, (*line)->health.tls != NULL,
                                (*line)->grpc_service, &(*line)->grpc_probe.call)) {
            return conf_error(conf, (*line)->node, "the name of the group is too long");
        }
        (*line)->probe.wants_body = (*line)->match != NULL && (*line)->match->bodies.count != 0;
    }
    return true;
}

static const struct directive health_check_rows[] = {
    {"health_check", IN_LOCATION, CUSTOM(health_check_apply), ARGS(0, ARGS_ANY),
     .repeat = REPEAT_CUSTOM,
     .syntax = "[interval=time] [jitter=time] [fails=number] [passes=number] [uri=uri] "
               "[mandatory [persistent]] [match=name] [port=number] [keepalive_time=time] "
               "[type=http | type=grpc [grpc_service=name] [grpc_status=code]] "
               "[sync[=store]] [sync_interval=time]",
     .doc = "Enables health checks of each server of the group that this location passes "
            "requests to; one worker performs them for all. By default a check is made "
            "every 5s; a server is unhealthy after 1 failed check and healthy after 1 "
            "successful one; a check may take 5s. `mandatory`: a server receives no "
            "requests before its first successful check; `persistent`: the state survives a "
            "reload. `type=grpc`, with grpc_pass: a call of grpc.health.v1.Health/Check for "
            "`grpc_service`, or for the server as a whole, on a new connection each time; "
            "the server is healthy if the response is SERVING, or if the call ends with "
            "`grpc_status` (12 if the server does not implement the service). If a group "
            "has several checks, a server is unhealthy when one of them fails. With `sync` "
            "one of the nodes that share a `redis_store` checks a server for all of them."},
    {"match", IN_HTTP, FREE_FORM(match_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "name",
     .doc = "Conditions for the response of a healthy server: lines `status [!] code | "
            "code-code ...`, `header name [= | != | ~ | !~ value]`, `header ! name`, `body "
            "~ | !~ regex` (in the first 256k), `require $variable ...`. All of them must "
            "be true."},
    {0},
};

static const struct http_module health_check_hooks = {.end = health_check_end};

const struct module ngx_http_upstream_hc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_hc_module",
    .kind = MODULE_HTTP,
    .table = {.rows = health_check_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct check_settings),
              .finish = health_check_finish,
              .fresh = health_check_fresh},
    .hooks = &health_check_hooks,
};
