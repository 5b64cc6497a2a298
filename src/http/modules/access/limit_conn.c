/* ngx_http_limit_conn_module: limits the concurrent requests of a key. */
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/limit/conn.h"

struct conn_settings {
    struct vec limits; /* struct conn_limit: a request must pass all of them */
    unsigned log_level;
    int64_t status;
    bool is_dry_run;
};

static struct settings_key conn_key;

static const struct limit_kind conn_zones = CONN_ZONES("http");

TYPED_SETTINGS(limit_conn_settings_at, struct conn_settings, conn_key, struct http_location)

/* ---- per request ---- */

/* A pipelined request takes over the share of an earlier request on the same connection that has
 * been processed and waits for its last bytes to be sent: an HTTP/1 connection counts as one
 * request at a time. */
static bool take_over_share(void *subject, struct shm_table *table, const struct shm_key *key,
                            struct count_share *share)
{
    struct request *former = ((struct request *) subject)->main;
    const struct http_wire *wire = former->wire;

    while (wire->former != NULL && (former = wire->former(former)) != NULL) {
        struct conn_outcome *outcome = request_data(former, &conn_key, 0);

        for (unsigned i = 0; outcome != NULL && i < outcome->count; i++) {
            if (count_is_of(&outcome->shares[i], table, key)) {
                *share = outcome->shares[i];
                outcome->shares[i].table = NULL;
                return true;
            }
        }
    }
    return false;
}

static enum handler_result limit_connections(struct request *request)
{
    const struct conn_settings *settings = limit_conn_settings_at(request->location);
    struct conn_outcome *outcome = /* once for the main request, its redirects and subrequests */
        request_data(request->main, &conn_key, sizeof(struct conn_outcome));
    const struct conn_rules rules = {
        .limits = &settings->limits,
        .log_level = settings->log_level,
        .is_dry_run = settings->is_dry_run,
        .take_over = take_over_share,
        .subject = request,
    };

    if (outcome->status != CONN_UNLIMITED ||
        conn_limits_take(&rules, &request->env, &request->main->arena, outcome)) {
        return HANDLER_NEXT;
    }
    return request_fail(request, (unsigned) settings->status);
}

static bool limit_conn_get_status(struct variable_env *env, const struct variable *variable,
                                  struct str *out)
{
    return conn_outcome_text(request_data(variable_request(env)->main, &conn_key, 0), out);
}

/* ---- directives ---- */

static bool limit_conn_zone_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    return conn_zone_read(scope->conf, node, &conn_zones);
}

static bool old_zone_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return conn_zone_read_old(scope->conf, node, &conn_zones);
}

static bool limit_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return conn_limit_read(scope->conf, node, &conn_zones,
                           &((struct conn_settings *) settings)->limits);
}

#define S struct conn_settings
static const struct directive conn_rows[] = {
    {"limit_conn_zone", IN_HTTP, CUSTOM(limit_conn_zone_apply), ARGS(2, 4), .repeat = REPEAT_CUSTOM,
     .syntax = "key zone=name:size [sync[=store]] [sync_interval=time]",
     .doc = "Shared memory zone in which requests are counted by a key, such as "
            "`$binary_remote_addr`; requests with an empty key are not counted. 1m holds "
            "about 20,000 keys at a time. With `sync` all nodes that share a `redis_store` "
            "count together."},
    {"limit_zone", IN_HTTP, CUSTOM(old_zone_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .replaced_by = "limit_conn_zone", .syntax = "name $variable size",
     .doc = "Old form of `limit_conn_zone $variable zone=name:size`."},
    CONN_LIMIT_ROWS(IN_HTTP_ALL, S, limit_apply),
    {"limit_conn_status", IN_HTTP_ALL, NUMBER(S, status), .min = 400, .max = 599, .initial = "503",
     .doc = "Status of the response to a refused request."},
    {0},
};
#undef S

static const struct variable conn_variables[] = {
    {.name = STR_INIT("limit_conn_status"),
     .doc = "Result of the limits: PASSED, REJECTED or REJECTED_DRY_RUN.",
     .get = limit_conn_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook conn_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "limit_conn",
     .run = limit_connections,
     .when = SETTING(conn_key, struct conn_settings, limits.count)},
    {.run = NULL},
};

/* ---- the worker ---- */

static bool limit_conn_worker_start(struct generation *generation)
{
    conn_zones_join(&generation->conf, &conn_zones);
    return true;
}

static void limit_conn_worker_end(struct generation *generation)
{
    conn_zones_leave(&generation->conf, &conn_zones);
}

static const struct http_module conn_hooks = {.variables = conn_variables, .phases = conn_phases};

const struct module ngx_http_limit_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_limit_conn_module",
    .kind = MODULE_HTTP,
    .table = {.key = &conn_key,
              .rows = conn_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct conn_settings)},
    .hooks = &conn_hooks,
    .worker_start = limit_conn_worker_start,
    .worker_end = limit_conn_worker_end,
};
