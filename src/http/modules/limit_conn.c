/* ngx_http_limit_conn_module: how many requests of a key may be under way at one time. */
#include "base/list.h"
#include "http/client/connection.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/limit/conn.h"

struct conn_settings {
    struct vec limits; /* struct conn_limit: all must let a request pass */
    unsigned log_level;
    int64_t status;
    bool is_dry_run;
};

/* What became of a request; its own once for its redirects and subrequests. */
enum conn_status { CONN_UNLIMITED, CONN_PASSED, CONN_REJECTED, CONN_REJECTED_DRY_RUN };
struct conn_outcome {
    enum conn_status status;
    struct count_share *shares; /* it holds them until its last byte was sent */
    unsigned count;             /* of shares: at most one for each limit */
};

static struct settings_key conn_key;

static const struct limit_kind conn_zones = CONN_ZONES("http limit_conn_zone");

static const struct conn_settings *settings_at(const struct http_location *location)
{
    return location_settings(location, &conn_key);
}

/* ---- for a request ---- */

static void shares_release(void *arg)
{
    count_release(arg);
}

static void release_all(struct conn_outcome *outcome)
{
    while (outcome->count > 0) {
        count_release(&outcome->shares[--outcome->count]);
    }
}

/*
 * A request that was pipelined takes the share of one before it on the connection, which was worked on already and
 * waits for its last bytes to be sent: one request of an HTTP/1 connection is under way at a time.
 */
static bool take_over_share(struct request *request, struct shm_table *table,
                            const struct shm_key *key, struct count_share *share)
{
    list_each(link, &request->http->unfinished) {
        struct request *former = container_of(link, struct request, link);
        struct conn_outcome *outcome =
            former == request->main ? NULL : request_data(former, &conn_key, 0);

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

/* Takes the request's share of one limit; false: it may not pass. */
static bool limit_take(struct request *request, const struct conn_limit *limit,
                       const struct shm_key *key, struct conn_outcome *outcome)
{
    const struct conn_settings *settings = settings_at(request->location);
    const struct conn_zone *zone = limit->zone;
    struct count_share *share = &outcome->shares[outcome->count];
    enum count_result result = COUNT_TAKEN;

    if (!take_over_share(request, zone->limit.table, key, share)) {
        result = count_take(zone->limit.table, key, limit->most, zone->holder, share);
    }
    if (result == COUNT_TAKEN) {
        outcome->count++;
        arena_on_free(&request->main->arena, shares_release, share);
        return true;
    }
    if (result == COUNT_FULL) {
        log_crit(&request->log, 0, "no memory in limit_conn_zone \"%.*s\"",
                 STR_ARG(zone->limit.zone->name));
    }
    log_at(&request->log, settings->log_level, 0, "limiting connections%s by zone \"%.*s\"",
           settings->is_dry_run ? ", dry run," : "", STR_ARG(zone->limit.zone->name));
    return false;
}

static enum flow limit_connections(struct request *request)
{
    const struct conn_settings *settings = settings_at(request->location);
    struct conn_outcome *outcome =
        request_data(request->main, &conn_key, sizeof(struct conn_outcome));

    if (outcome->status != CONN_UNLIMITED) {
        return FLOW_NEXT;
    }
    outcome->shares =
        arena_array(&request->main->arena, settings->limits.count, sizeof(*outcome->shares));
    vec_each(const struct conn_limit, limit, &settings->limits) {
        struct shm_key key;

        if (!limit_zone_key(&limit->zone->limit, &request->env, &key)) {
            continue;
        }
        if (limit_take(request, limit, &key, outcome)) {
            outcome->status = CONN_PASSED;
            continue;
        }
        release_all(outcome);
        if (settings->is_dry_run) {
            outcome->status = CONN_REJECTED_DRY_RUN;
            return FLOW_NEXT;
        }
        outcome->status = CONN_REJECTED;
        counters_mine->limited++;
        return request_fail(request, (unsigned) settings->status);
    }
    return FLOW_NEXT;
}

static bool is_active(const struct http_location *location)
{
    return settings_at(location)->limits.count != 0;
}

static bool get_status(struct variable_env *env, const struct variable *variable, struct str *out)
{
    static const struct str names[] = {[CONN_PASSED] = STR_INIT("PASSED"),
                                       [CONN_REJECTED] = STR_INIT("REJECTED"),
                                       [CONN_REJECTED_DRY_RUN] = STR_INIT("REJECTED_DRY_RUN")};
    const struct conn_outcome *outcome = request_data(variable_request(env)->main, &conn_key, 0);

    return outcome != NULL && outcome->status != CONN_UNLIMITED &&
           variable_give(out, names[outcome->status]);
}

/* ---- directives ---- */

static bool zone_apply(struct conf_scope *scope, const struct directive *row,
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
    {"limit_conn_zone", IN_HTTP, CUSTOM(zone_apply), ARGS(2, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "key zone=name:size",
     .doc = "Shared memory in which requests are counted by a key, such as $binary_remote_addr; a "
            "request whose key is empty is not counted. 1m is enough for some 20,000 keys at a "
            "time."},
    {"limit_zone", IN_HTTP, CUSTOM(old_zone_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .replaced_by = "limit_conn_zone", .syntax = "name $variable size",
     .doc = "The same as `limit_conn_zone $variable zone=name:size`, as it was written once."},
    {"limit_conn", IN_HTTP_ALL, CUSTOM_FIELD(S, limits, limit_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "zone number",
     .doc = "So many requests of one key of this zone may be under way at a time; requests of an "
            "HTTP/2 connection count one by one. Of several limits each must let a request pass."},
    {"limit_conn_log_level", IN_HTTP_ALL, ENUM(S, log_level, limit_log_levels), .initial = "error",
     .doc = "The level of the line about a refused request."},
    {"limit_conn_status", IN_HTTP_ALL, NUMBER(S, status), .min = 400, .max = 599, .initial = "503",
     .doc = "What a refused request is answered with."},
    {"limit_conn_dry_run", IN_HTTP_ALL, FLAG(S, is_dry_run), .initial = "off",
     .doc = "Refuses nothing; log and $limit_conn_status tell what would be refused."},
    {0},
};
#undef S

static const struct directive_table conn_table = {.key = &conn_key,
                                                  .rows = conn_rows,
                                                  .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                  .size = sizeof(struct conn_settings)};
static const struct directive_table *const conn_tables[] = {&conn_table, NULL};

static const struct variable conn_variables[] = {
    {.name = STR_INIT("limit_conn_status"), .get = get_status, .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook conn_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "limit_conn",
     .run = limit_connections,
     .is_active = is_active},
    {.run = NULL},
};

/* ---- the worker ---- */

static bool worker_start(struct generation *generation)
{
    conn_zones_join(&generation->conf, &conn_zones);
    return true;
}

static void worker_end(struct generation *generation)
{
    conn_zones_leave(&generation->conf, &conn_zones);
}

static const struct http_module conn_hooks = {.variables = conn_variables, .phases = conn_phases};

const struct module ngx_http_limit_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_limit_conn_module",
    .kind = MODULE_HTTP,
    .tables = conn_tables,
    .hooks = &conn_hooks,
    .worker_start = worker_start,
    .worker_end = worker_end,
};
