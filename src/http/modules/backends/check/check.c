/* ngx_http_upstream_check_module: active health checks with Tengine's directives. */
#include "base/parse.h"
#include "http/exchange/probe/probe.h"
#include "http/routing/hooks.h"
#include "http/modules/backends/check/speak.h"
#include "http/modules/backends/check/status.h"
#include "server/module.h"
#include "upstream/health.h"

/* Classes of status codes for check_http_expect_alive. */
enum expected { EXPECT_1XX = 1, EXPECT_2XX = 2, EXPECT_3XX = 4, EXPECT_4XX = 8, EXPECT_5XX = 16 };

/* clang-format off */
static const struct directive_word expect_words[] = {
    {"http_1xx", EXPECT_1XX},
    {"http_2xx", EXPECT_2XX},
    {"http_3xx", EXPECT_3XX},
    {"http_4xx", EXPECT_4XX},
    {"http_5xx", EXPECT_5XX},
    {NULL, 0},
};
/* clang-format on */

/* A server that starts as up (default_down=false) is first probed after this time, or after one
 * interval if that is shorter, so that a service whose backends start at the same time does not
 * mark them down at once. */
enum { FIRST_DELAY_MS = 1000 };

/* The probe of each type; NULL: connecting is sufficient. */
static const struct {
    const char *name;
    bool (*speak)(struct health_probe *probe);
} types[] = {
    {"tcp", NULL},
    {"http", probe_speak_http},
    {"fastcgi", probe_speak_fastcgi},
    {"ssl_hello", check_speak_tls},
    {"mysql", check_speak_mysql},
    {"ajp", check_speak_ajp},
};

/* Settings of an upstream block. */
struct check_settings {
    const struct conf_node *node;   /* where `check` is; NULL = none */
    struct health_settings *health; /* parsed from `check` */
    struct http_probe probe;        /* for the types http and fastcgi */
    struct str http_send;
    unsigned http_expect;      /* bits of enum expected */
    struct vec fastcgi_params; /* struct probe_param */
    int64_t keepalive_requests;
};

static struct settings_key check_key;

/* ---- evaluation of responses ---- */

/* Has the response an expected status? A FastCGI response without a Status field is always good, as
 * in Tengine. */
static bool check_judge(struct health_probe *probe, struct probe_response *response,
                        const void *settings)
{
    const struct check_settings *check = settings;
    unsigned kind = response->status / 100;

    if (response->is_assumed || (kind <= 5 && (check->http_expect & 1u << (kind - 1)) != 0)) {
        return true;
    }
    probe->reason = arena_printf(probe->arena, "status code %u", response->status).data;
    return false;
}

/* ---- rows in an upstream block ---- */

static bool check_read_number(struct str value, uint64_t most, uint64_t *out)
{
    return parse_uint(value, out) && *out <= most;
}

static bool read_bool(struct str value, bool *out)
{
    *out = str_equal_nocase(value, STR("true"));
    return *out || str_equal_nocase(value, STR("false"));
}

static bool read_type(struct str value, struct health_settings *health)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (str_is(value, types[i].name)) {
            health->type = str_of(types[i].name);
            health->speak = types[i].speak;
            return true;
        }
    }
    return false;
}

/* Parses one name=value of `check`. */
static bool check_read_parameter(struct health_settings *health, struct str name, struct str value)
{
    uint64_t number = 0;

    if (str_is(name, "interval")) {
        return check_read_number(value, INT32_MAX, &health->interval_ms) &&
               health->interval_ms != 0;
    }
    if (str_is(name, "timeout")) {
        return check_read_number(value, INT32_MAX, &health->timeout_ms) && health->timeout_ms != 0;
    }
    if (str_is(name, "fall")) {
        bool is_ok = check_read_number(value, INT32_MAX, &number) && number != 0;
        health->fails = (unsigned) number;
        return is_ok;
    }
    if (str_is(name, "rise")) {
        bool is_ok = check_read_number(value, INT32_MAX, &number) && number != 0;
        health->passes = (unsigned) number;
        return is_ok;
    }
    if (str_is(name, "port")) {
        bool is_ok = check_read_number(value, UINT16_MAX, &number) && number != 0;
        health->port = (uint16_t) number;
        return is_ok;
    }
    if (str_is(name, "default_down")) {
        return read_bool(value, &health->is_down_at_first);
    }
    if (str_is(name, "unique")) {
        return read_bool(value, &health->is_unique);
    }
    return str_is(name, "type") && read_type(value, health);
}

static bool check_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct check_settings *check = settings;
    struct health_settings *health = arena_new(scope->conf->arena, struct health_settings);

    *health = (struct health_settings){
        .interval_ms = 30000,
        .timeout_ms = 1000,
        .fails = 5,
        .passes = 2,
        .is_down_at_first = true,
        .is_persistent = true,
        .type = STR("tcp"),
    };
    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];
        struct str name = str_cut(&value, '=');

        if (value.data == NULL || !check_read_parameter(health, name, value)) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    check->node = node;
    check->health = health;
    return true;
}

/* check_http_send, which must follow a `check` of a type that uses it. */
static bool http_send_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct check_settings *check = settings;

    check->http_send = node->args[1];
    if (scope->parent == NULL) {
        return true; /* the default value */
    }
    if (check->health == NULL) {
        return conf_error(scope->conf, node, "invalid check_http_send should set [check] first");
    }
    return check->health->speak == probe_speak_http ||
           conf_error(scope->conf, node, "invalid check_http_send for type \"%.*s\"",
                      STR_ARG(check->health->type));
}

static bool fastcgi_param_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct check_settings *check = settings;
    struct probe_param *param =
        vec_add(&check->fastcgi_params, scope->conf->arena, struct probe_param);

    param->name = node->args[1];
    param->value = node->args[2];
    return true;
}

/* ---- at the end of the block ---- */

/* Sets what is sent, for the types http and fastcgi. */
static bool make_probe(struct conf *conf, struct check_settings *check)
{
    struct http_probe *probe = &check->probe;
    struct health_settings *health = check->health;

    probe->is_200_unless_set = true;
    probe->judge = check_judge;
    probe->judge_settings = check;
    health->speak_settings = probe;
    if (health->speak == probe_speak_http) {
        probe->request = probe->request_kept = check->http_send;
        return true;
    }
    if (health->speak != probe_speak_fastcgi) {
        return true;
    }
    return (probe_fastcgi_request(conf->arena, &check->fastcgi_params, false, &probe->request) &&
            probe_fastcgi_request(conf->arena, &check->fastcgi_params, true,
                                  &probe->request_kept)) ||
           conf_error(conf, check->node, "a value of \"check_fastcgi_param\" is too long");
}

/* Warns of directives that the type of the check does not use. */
static void warn_of_unused(struct conf_scope *scope, const struct check_settings *check)
{
    static const struct {
        const char *row;
        const char *type; /* or NULL: any type */
    } rows[] = {
        {"check_http_expect_alive", NULL},
        {"check_fastcgi_param", "fastcgi"},
        {"check_keepalive_requests", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_used = check->health != NULL &&
                       (rows[i].type == NULL || str_is(check->health->type, rows[i].type));
        if (!is_used && conf_is_set(scope, &check_key, rows[i].row)) {
            conf_warn(scope->conf, scope->node, "\"%s\" has no effect without \"check%s%s\"",
                      rows[i].row, rows[i].type == NULL ? "" : " type=",
                      rows[i].type == NULL ? "" : rows[i].type);
        }
    }
}

static bool check_finish(struct conf_scope *scope, void *settings)
{
    struct check_settings *check = settings;

    warn_of_unused(scope, check);
    if (check->health == NULL) {
        return true;
    }
    struct health_settings *health = check->health;
    if (!health->is_down_at_first) {
        health->first_delay_ms =
            health->interval_ms < FIRST_DELAY_MS ? health->interval_ms : FIRST_DELAY_MS;
    }
    if (check->keepalive_requests > 1) {
        health->keepalive_requests = check->keepalive_requests;
        health->keepalive_time_ms = UINT64_MAX;
    }
    return make_probe(scope->conf, check) &&
           health_add(scope->conf, check->node, scope_group(scope), health);
}

/* ---- rows elsewhere ---- */

static enum handler_result check_answer(struct request *request, enum check_format format)
{
    return check_status_answer(request, upstream_set_of(&generation_now->conf, &upstream_http),
                               format);
}

static enum handler_result answer_html(struct request *request)
{
    return check_answer(request, FORMAT_HTML);
}

static enum handler_result answer_csv(struct request *request)
{
    return check_answer(request, FORMAT_CSV);
}

static enum handler_result answer_json(struct request *request)
{
    return check_answer(request, FORMAT_JSON);
}

static enum handler_result answer_prometheus(struct request *request)
{
    return check_answer(request, FORMAT_PROMETHEUS);
}

static bool check_status_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    static const request_handler handlers[] = {
        [FORMAT_HTML] = answer_html,
        [FORMAT_CSV] = answer_csv,
        [FORMAT_JSON] = answer_json,
        [FORMAT_PROMETHEUS] = answer_prometheus,
    };
    enum check_format format = node->count > 1 ? check_format_named(node->args[1]) : FORMAT_HTML;

    if (format == FORMAT_NONE) {
        return conf_error(scope->conf, node, "invalid check format \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    content_set(scope_location(scope), handlers[format], NULL);
    return true;
}

#define C struct check_settings
static const struct directive check_rows[] = {
    {"check", IN_UPSTREAM, CUSTOM(check_apply), ARGS(1, ARGS_ANY), .repeat = REPEAT_CUSTOM,
     .syntax = "[interval=milliseconds] [fall=number] [rise=number] [timeout=milliseconds] "
               "[default_down=true|false] [type=tcp|http|ssl_hello|mysql|ajp|fastcgi] "
               "[port=number] [unique=true|false]",
     .doc = "Enables health checks of each server of the group; one worker performs them "
            "for all. By default a check is made every 30000 ms and may take 1000 ms; a "
            "server is marked down after 5 failed checks and up after 2 successful ones, "
            "and is down initially. `unique`: an address that is in several groups is "
            "checked once for all of them."},
    {"check_http_send", IN_UPSTREAM, CUSTOM_FIELD(C, http_send, http_send_apply), ARGS(1, 1),
     .initial = "\"GET / HTTP/1.0\\r\\n\\r\\n\"", .syntax = "string",
     .doc = "Request that checks of type `http` send; must be after `check`."},
    {"check_http_expect_alive", IN_UPSTREAM, BITS(C, http_expect, expect_words),
     .initial = "http_2xx http_3xx", .repeat = REPEAT_APPEND,
     .doc = "Classes of response statuses that mean that a server is healthy, for checks of "
            "types `http` and `fastcgi`."},
    {"check_fastcgi_param", IN_UPSTREAM, CUSTOM_FIELD(C, fastcgi_params, fastcgi_param_apply),
     ARGS(2, 2), .repeat = REPEAT_APPEND,
     .initial = "REQUEST_METHOD GET ; REQUEST_URI / ; SCRIPT_FILENAME index.php",
     .syntax = "name value", .doc = "Parameter that checks of type `fastcgi` send."},
    {"check_keepalive_requests", IN_UPSTREAM, NUMBER(C, keepalive_requests), .initial = "1",
     .min = 1, .max = INT32_MAX,
     .doc = "Number of checks on one connection, if the type and the server allow more than "
            "one."},
    {0},
};
#undef C

static const struct directive_table check_table = {
    .key = &check_key,
    .rows = check_rows,
    .contexts = IN_UPSTREAM,
    .size = sizeof(struct check_settings),
    .finish = check_finish,
};

/* Settings of the http block. */
struct check_main {
    uint64_t shm_size; /* accepted and ignored: the peers' shared memory has space for the states */
};

static const struct directive check_main_rows[] = {
    {"check_shm_size", IN_HTTP, SIZE(struct check_main, shm_size), .initial = "1m",
     .doc = "Accepted and ignored: the shared memory of the servers holds the results of "
            "checks as well."},
    {0},
};

static const struct directive_table check_main_table = {
    .rows = check_main_rows,
    .contexts = IN_HTTP,
    .size = sizeof(struct check_main),
};

static const struct directive check_status_rows[] = {
    {"check_status", IN_SERVER | IN_LOCATION, CUSTOM(check_status_apply), ARGS(0, 1),
     .repeat = REPEAT_CUSTOM, .initial = "html", .syntax = "[html | csv | json | prometheus]",
     .doc = "Responds with the state of all checked servers. The arguments `?format=` and "
            "`?status=up|down` override the format and select the servers that are shown "
            "and counted."},
    {0},
};

static const struct directive_table check_status_table = {.rows = check_status_rows};
static const struct directive_table *const check_tables[] = {&check_table, &check_main_table,
                                                             &check_status_table, NULL};

const struct module ngx_http_upstream_check_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_check_module",
    .kind = MODULE_HTTP,
    .tables = check_tables,
};
