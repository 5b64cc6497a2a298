/* ngx_http_limit_req_module: limits the request rate of a key. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/routing/hooks.h"
#include "shared/limit/zone.h"
#include "shared/limit/bucket.h"
#include "shared/limit/sync.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"

/* A zone of buckets. */
struct req_zone {
    struct limit_zone limit;
    uint64_t per_minute;      /* the rate, if constant */
    struct template *rate;    /* the rate, if it has variables; else NULL */
    struct bucket_sync *sync; /* shares the zone with other nodes; NULL: not shared */
    uint64_t burst;           /* units: the largest burst of its limits */
};

/* One `limit_req` directive. */
struct req_limit {
    struct req_zone *zone;
    uint64_t burst;     /* units (bucket.h) */
    uint64_t undelayed; /* units up to which requests are not delayed; UINT64_MAX = requests are
                           never delayed */
    struct template
        *forbid; /* where rejected requests are redirected: a URI or @name; NULL = the status */
};

/* A variable, and the value with which a request is exempt. */
struct req_exempt {
    struct template *variable;
    struct str value;
};

struct req_settings {
    struct vec limits; /* struct req_limit: a request must pass all of them */
    struct vec exempt; /* struct req_exempt: one is sufficient */
    bool is_off;       /* `limit_req off` */
    unsigned log_level;
    int64_t status;
    bool is_dry_run;
};

/* The result for a request; once for the main request, its redirects and subrequests. */
enum req_status {
    REQ_UNLIMITED,
    REQ_PASSED,
    REQ_DELAYED,
    REQ_REJECTED,
    REQ_DELAYED_DRY_RUN,
    REQ_REJECTED_DRY_RUN
};
struct req_outcome {
    enum req_status status;
};

static struct settings_key req_key;

static const struct limit_kind req_kind = {.state = "http limit_req_zone",
                                           .protocol = "http",
                                           .directive = "limit_req_zone",
                                           .label = "limit_req",
                                           .delays = true,
                                           .size = sizeof(struct req_zone),
                                           .record_size = BUCKET_RECORD_SIZE,
                                           .head_size = 0};

TYPED_SETTINGS(limit_req_settings_at, struct req_settings, req_key, struct http_location)

/* ---- per request ---- */

/* Units in thousandths of a request, rounded up: for "%llu.%03u". */
#define EXCESS_ARG(units)                                                                          \
    (unsigned long long) (bucket_thousandths(units) / 1000),                                       \
        (unsigned) (bucket_thousandths(units) % 1000)

static bool is_exempt(const struct req_settings *settings, struct request *request)
{
    vec_each(const struct req_exempt, exempt, &settings->exempt) {
        if (str_equal(template_text(exempt->variable, &request->env), exempt->value)) {
            return true;
        }
    }
    return false;
}

/* The rate of a zone for this request; 0 = unlimited. */
static uint64_t find_rate(struct request *request, const struct req_zone *zone)
{
    uint64_t per_minute = 0;

    if (zone->rate == NULL) {
        return zone->per_minute;
    }
    struct str text = template_text(zone->rate, &request->env);
    if (!bucket_parse_rate(text, &per_minute) && text.len != 0) {
        log_error(&request->log, 0, "invalid rate \"%.*s\" of zone \"%.*s\"", STR_ARG(text),
                  STR_ARG(zone->limit.zone->name));
    }
    return per_minute;
}

/* Prepares the query of a limit's bucket; false: this limit does not apply to the request. */
static bool make_ask(struct request *request, const struct req_limit *limit, struct bucket_ask *ask)
{
    ask->burst = limit->burst;
    ask->now_ms = clock_now.now_ms;
    ask->is_shared = limit->zone->sync != NULL;
    ask->per_minute = find_rate(request, limit->zone);
    return ask->per_minute != 0 && limit_zone_key(&limit->zone->limit, &request->env, &ask->key);
}

/* Does the store decide on each request? */
static bool is_strict(const struct req_limit *limit)
{
    return limit->zone->sync != NULL && limit->zone->sync->is_strict;
}

/* Finds the limits that apply to a request: asks[i].per_minute of others becomes 0. Returns the one
 * that decides last. */
static size_t find_limits(struct request *request, const struct vec *limits,
                          struct bucket_ask *asks)
{
    size_t last = limits->count;

    for (size_t i = 0; i < limits->count; i++) {
        const struct req_limit *limit = vec_at(limits, struct req_limit, i);

        if (!make_ask(request, limit, &asks[i])) {
            asks[i].per_minute = 0;
        } else if (last == limits->count || is_strict(limit) ||
                   !is_strict(vec_at(limits, struct req_limit, last))) {
            last = i;
        }
    }
    return last;
}

/* MAY WAIT, if the limit is strict. */
static bool ask_limit(struct request *request, const struct req_limit *limit,
                      struct bucket_ask *ask, bool counts)
{
    const struct bucket_sync *sync = limit->zone->sync;

    if (sync == NULL) {
        return bucket_take(limit->zone->limit.table, ask, counts);
    }
    if (sync->is_strict) {
        return bucket_sync_take(sync, ask, counts, &request->env, &request->arena);
    }
    bool may_pass = bucket_take(limit->zone->limit.table, ask, counts);
    if (counts || !may_pass) {
        bucket_sync_note(sync, ask, &request->env);
    }
    return may_pass;
}

static void count_limit(struct request *request, const struct req_limit *limit,
                        struct bucket_ask *ask)
{
    bucket_count(limit->zone->limit.table, ask);
    if (limit->zone->sync != NULL) {
        bucket_sync_note(limit->zone->sync, ask, &request->env);
    }
}

/* Checks all limits; the request is counted by all of them or by none. Returns the one that rejects
 * it, or NULL. asks: one per limit; per_minute 0 = it does not apply. MAY WAIT, if a limit is
 * strict. */
static const struct req_limit *find_refusal(struct request *request, const struct vec *limits,
                                            struct bucket_ask *asks, bool *holds)
{
    size_t last = find_limits(request, limits, asks);

    *holds = last != limits->count;
    for (size_t i = 0; i < limits->count; i++) {
        const struct req_limit *limit = vec_at(limits, struct req_limit, i);

        if (i != last && asks[i].per_minute != 0 && !ask_limit(request, limit, &asks[i], false)) {
            return limit;
        }
    }
    if (*holds && !ask_limit(request, vec_at(limits, struct req_limit, last), &asks[last], true)) {
        return vec_at(limits, struct req_limit, last);
    }
    for (size_t i = 0; i < limits->count; i++) {
        if (i != last && asks[i].per_minute != 0) {
            count_limit(request, vec_at(limits, struct req_limit, i), &asks[i]);
        }
    }
    return NULL;
}

static enum handler_result limit_refuse(struct request *request, const struct req_limit *limit,
                                        uint64_t excess, struct req_outcome *outcome)
{
    const struct req_settings *settings = limit_req_settings_at(request->location);

    log_at(&request->log, settings->log_level, 0,
           "limiting requests%s, excess: %llu.%03u by zone \"%.*s\"",
           settings->is_dry_run ? ", dry run" : "", EXCESS_ARG(excess),
           STR_ARG(limit->zone->limit.zone->name));
    limit_count(&limit->zone->limit,
                settings->is_dry_run ? LIMIT_REJECTED_DRY_RUN : LIMIT_REJECTED);
    if (settings->is_dry_run) {
        outcome->status = REQ_REJECTED_DRY_RUN;
        return HANDLER_NEXT;
    }
    outcome->status = REQ_REJECTED;
    counters_mine->limited++;
    if (limit->forbid == NULL) {
        return request_fail(request, (unsigned) settings->status);
    }
    struct str target = template_text(limit->forbid, &request->env), uri, args = STR_NONE;
    if (target.len != 0 && *target.data == '@') {
        return request_redirect_named(request, target);
    }
    return request_split_uri(request, target, &uri, &args) ? request_redirect(request, uri, args)
                                                           : request_fail(request, 500);
}

/* The limit with the longest delay for the request, or NULL. */
static const struct req_limit *find_delay(const struct vec *limits, const struct bucket_ask *asks,
                                          uint64_t *delay_ms, uint64_t *excess)
{
    const struct req_limit *found = NULL;

    *delay_ms = 0;
    for (size_t i = 0; i < limits->count; i++) {
        const struct req_limit *limit = vec_at(limits, struct req_limit, i);
        uint64_t ms = asks[i].per_minute == 0
                          ? 0
                          : bucket_delay_ms(asks[i].excess, limit->undelayed, asks[i].per_minute);
        if (ms > *delay_ms) {
            found = limit;
            *delay_ms = ms;
            *excess = asks[i].excess;
        }
    }
    return found;
}

/* MAY WAIT. */
static enum handler_result delay(struct request *request, const struct req_limit *limit,
                                 uint64_t excess, uint64_t delay_ms, struct req_outcome *outcome)
{
    const struct req_settings *settings = limit_req_settings_at(request->location);
    unsigned level = settings->log_level == LOG_INFO ? LOG_INFO : settings->log_level + 1;

    log_at(&request->log, level, 0, "delaying request%s, excess: %llu.%03u, by zone \"%.*s\"",
           settings->is_dry_run ? ", dry run" : "", EXCESS_ARG(excess),
           STR_ARG(limit->zone->limit.zone->name));
    if (settings->is_dry_run) {
        outcome->status = REQ_DELAYED_DRY_RUN;
        return HANDLER_NEXT;
    }
    outcome->status = REQ_DELAYED;
    return fiber_sleep(clock_now.now_ms + delay_ms) == WAIT_CANCELLED ? HANDLER_CLOSED
                                                                      : HANDLER_NEXT;
}

/* The request passes: counts it in the zones of all limits that apply, in that of `delaying` (or
 * NULL) as delayed. */
static void count_passed(const struct req_settings *settings, const struct bucket_ask *asks,
                         const struct req_limit *delaying)
{
    enum limit_outcome delayed = settings->is_dry_run ? LIMIT_DELAYED_DRY_RUN : LIMIT_DELAYED;

    for (size_t i = 0; i < settings->limits.count; i++) {
        const struct req_limit *limit = vec_at(&settings->limits, struct req_limit, i);

        if (asks[i].per_minute != 0) {
            limit_count(&limit->zone->limit, limit == delaying ? delayed : LIMIT_PASSED);
        }
    }
}

/* MAY WAIT. */
static enum handler_result limit_requests(struct request *request)
{
    const struct req_settings *settings = limit_req_settings_at(request->location);
    const struct vec *limits = &settings->limits;
    struct req_outcome *outcome = request_data(request->main, &req_key, sizeof(struct req_outcome));
    uint64_t delay_ms, excess = 0;
    bool holds;

    if (outcome->status != REQ_UNLIMITED || is_exempt(settings, request)) {
        return HANDLER_NEXT;
    }
    struct bucket_ask *asks = arena_array(&request->arena, limits->count, sizeof(*asks));
    const struct req_limit *limit = find_refusal(request, limits, asks, &holds);
    if (limit != NULL) {
        return limit_refuse(request, limit,
                            asks[limit - vec_at(limits, struct req_limit, 0)].excess, outcome);
    }
    if (!holds) {
        return HANDLER_NEXT;
    }
    limit = find_delay(limits, asks, &delay_ms, &excess);
    count_passed(settings, asks, limit);
    if (limit != NULL) {
        return delay(request, limit, excess, delay_ms, outcome);
    }
    outcome->status = REQ_PASSED;
    return HANDLER_NEXT;
}

static bool limit_req_get_status(struct variable_env *env, const struct variable *variable,
                                 struct str *out)
{
    static const struct str names[] = {[REQ_PASSED] = STR_INIT("PASSED"),
                                       [REQ_DELAYED] = STR_INIT("DELAYED"),
                                       [REQ_REJECTED] = STR_INIT("REJECTED"),
                                       [REQ_DELAYED_DRY_RUN] = STR_INIT("DELAYED_DRY_RUN"),
                                       [REQ_REJECTED_DRY_RUN] = STR_INIT("REJECTED_DRY_RUN")};
    const struct req_outcome *outcome = request_data(variable_request(env)->main, &req_key, 0);

    return outcome != NULL && outcome->status != REQ_UNLIMITED &&
           variable_give(out, names[outcome->status]);
}

/* ---- directives ---- */

/* Is the parameter "NAME=VALUE" with this name? Gives the value. */
static bool word_takes(struct str word, struct str name, struct str *value)
{
    if (!str_starts(word, name)) {
        return false;
    }
    *value = str_skip(word, name.len);
    return true;
}

/* The parameters of `limit_req_zone` except for its first key. */
struct zone_words {
    struct limit_zone_words zone;
    struct str rate; /* as written */
    unsigned *keys;  /* array for those of the zone */
    struct store_sync_words sync;
};

static bool read_zone_word(struct conf_scope *scope, const struct conf_node *node, unsigned number,
                           struct zone_words *words)
{
    struct str word = node->args[number], value;

    if (word_takes(word, STR("zone="), &value)) {
        return limit_zone_read(scope->conf, node, word, &words->zone.name, &words->zone.size);
    }
    if (word_takes(word, STR("rate="), &value)) {
        words->rate = value;
        return true;
    }
    if (word.len > 1 && *word.data == '$') {
        words->keys[words->zone.key_count++] = number;
        return true;
    }
    bool is_sync;
    if (!store_sync_read(scope->conf, node, word, true, &words->sync, &is_sync)) {
        return false;
    }
    return is_sync || conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool read_rate(struct conf_scope *scope, const struct conf_node *node, struct str text,
                      struct req_zone *zone)
{
    if (template_variable_count(text) != 0) {
        zone->rate = template_compile(scope->conf, node, text);
        return zone->rate != NULL;
    }
    return bucket_parse_rate(text, &zone->per_minute) ||
           conf_error(scope->conf, node, "invalid rate \"rate=%.*s\"", STR_ARG(text));
}

static bool limit_req_zone_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct zone_words words = {
        .rate = STR("1r/s"),
        .keys = arena_array(scope->conf->arena, node->count, sizeof(unsigned)),
    };
    struct req_zone checked = {.per_minute = 0};

    words.keys[words.zone.key_count++] = 1;
    for (unsigned i = 2; i < node->count; i++) {
        if (!read_zone_word(scope, node, i, &words)) {
            return false;
        }
    }
    if (!read_rate(scope, node, words.rate, &checked)) {
        return false;
    }
    if (words.zone.name.len == 0) {
        return conf_error(scope->conf, node, "\"limit_req_zone\" must have \"zone\" parameter");
    }
    words.zone.keys = words.keys;
    struct req_zone *zone =
        (struct req_zone *) limit_zone_declare(scope->conf, node, &req_kind, &words.zone);
    if (zone == NULL) {
        return false;
    }
    zone->per_minute = checked.per_minute;
    zone->rate = checked.rate;
    if (!words.sync.is_wanted) {
        return store_sync_check(scope->conf, node, &words.sync);
    }
    zone->sync = bucket_sync_new(scope->conf, node, &zone->limit, &words.sync);
    return zone->sync != NULL;
}

/* Converts "burst=5" and "delay=5" to units. */
static bool read_units(struct conf_scope *scope, const struct conf_node *node, struct str word,
                       struct str value, uint64_t *units)
{
    uint64_t number;

    if (!parse_uint(value, &number) || number == 0) {
        return conf_error(scope->conf, node, "invalid %.*s value \"%.*s\"",
                          (int) (value.data - word.data) - 1, word.data, STR_ARG(word));
    }
    *units = (number < REQUESTS_MOST ? number : REQUESTS_MOST) * REQUEST_UNITS;
    return true;
}

static bool read_limit_word(struct conf_scope *scope, struct conf_node *node, struct str word,
                            struct req_limit *limit)
{
    struct str value;

    if (word_takes(word, STR("zone="), &value)) {
        limit->zone = (struct req_zone *) limit_zone_named(scope->conf, node, &req_kind, value);
        return limit->zone != NULL;
    }
    if (word_takes(word, STR("burst="), &value)) {
        return read_units(scope, node, word, value, &limit->burst);
    }
    if (word_takes(word, STR("delay="), &value)) {
        return read_units(scope, node, word, value, &limit->undelayed);
    }
    if (word_takes(word, STR("forbid_action="), &value) && value.len > 1 &&
        (*value.data == '/' || *value.data == '@')) {
        limit->forbid = template_compile(scope->conf, node, value);
        return limit->forbid != NULL;
    }
    if (str_is(word, "nodelay")) {
        limit->undelayed = UINT64_MAX;
        return true;
    }
    return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool limit_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *arg)
{
    struct req_settings *settings = arg;
    struct req_limit limit = {.zone = NULL};
    bool is_off = node->count == 2 && str_is(node->args[1], "off");

    if (!conf_is_set(scope, &req_key, row->name)) {
        settings->is_off = is_off;
    } else if (is_off || settings->is_off) {
        return conf_error(scope->conf, node, "\"%s\" directive is duplicate", row->name);
    }
    if (is_off) {
        return true;
    }
    for (unsigned i = 1; i < node->count; i++) {
        if (!read_limit_word(scope, node, node->args[i], &limit)) {
            return false;
        }
    }
    if (limit.zone == NULL) {
        return conf_error(scope->conf, node, "\"%s\" must have \"zone\" parameter", row->name);
    }
    if (limit.burst > limit.zone->burst) {
        limit.zone->burst = limit.burst;
    }
    vec_each(const struct req_limit, other, &settings->limits) {
        if (other->zone == limit.zone) {
            return conf_error(scope->conf, node, "\"%s\" directive is duplicate", row->name);
        }
    }
    *vec_add(&settings->limits, scope->conf->arena, struct req_limit) = limit;
    return true;
}

static bool whitelist_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *arg)
{
    struct req_settings *settings = arg;
    struct req_exempt exempt = {.variable = NULL};

    for (unsigned i = 1; i < node->count; i++) {
        struct str value;

        if (word_takes(node->args[i], STR("geo_var_name="), &value) && value.len != 0) {
            const char *sign = *value.data == '$' ? "" : "$";
            struct str text = arena_printf(scope->conf->arena, "%s%.*s", sign, STR_ARG(value));

            exempt.variable = template_compile(scope->conf, node, text);
            if (exempt.variable == NULL) {
                return false;
            }
        } else if (word_takes(node->args[i], STR("geo_var_value="), &value) && value.len != 0) {
            exempt.value = value;
        } else {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    if (exempt.variable == NULL || exempt.value.len == 0) {
        return conf_error(scope->conf, node,
                          "\"%s\" must have \"geo_var_name\" and \"geo_var_value\" parameters",
                          row->name);
    }
    *vec_add(&settings->exempt, scope->conf->arena, struct req_exempt) = exempt;
    return true;
}

#define S struct req_settings
static const struct directive req_rows[] = {
    {"limit_req_zone", IN_HTTP, CUSTOM(limit_req_zone_apply), ARGS(3, ARGS_ANY),
     .repeat = REPEAT_CUSTOM,
     .syntax =
         "key [$variable ...] zone=name:size rate=rate [sync[=store][:strict]] [sync_interval=time]",
     .doc = "Shared memory zone in which the requests of each key are counted, and the "
            "permitted rate: `5r/s`, `30r/m`, or a variable with such a value (empty: no "
            "limit). Several variables form one key; a request is not counted if all of "
            "them are empty. 1m holds about 17,000 keys; when it is full, the least "
            "recently used keys are removed. With `sync` nodes share the counts through a "
            "`redis_store` and exchange them every `sync_interval` (50ms); with "
            "`sync=strict` or `sync=store:strict` the store is queried for each request. "
            "See [Scaling out](scaling-out.md)."},
    {"limit_req", IN_HTTP_ALL, CUSTOM_FIELD(S, limits, limit_apply), ARGS(1, 4),
     .repeat = REPEAT_APPEND,
     .syntax =
         "zone=name [burst=number] [nodelay | delay=number] [forbid_action=uri | @name] | off",
     .doc = "Limits requests to the rate of this zone. Up to `burst` requests may exceed "
            "the rate; all of them are delayed, or only those above `delay`, or none with "
            "`nodelay`. Further requests are refused, or redirected internally to "
            "`forbid_action`. If there are several limits, all of them apply, with the "
            "longest delay. `off` disables the limits."},
    {"limit_req_whitelist", IN_HTTP_ALL, CUSTOM_FIELD(S, exempt, whitelist_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "geo_var_name=name geo_var_value=value",
     .doc = "Requests are not limited if the variable of this name, for example of `geo` or "
            "`map`, has this value."},
    {"limit_req_log_level", IN_HTTP_ALL, ENUM(S, log_level, limit_log_levels), .initial = "error",
     .doc = "Log level of the message about a refused request; delays are logged at the "
            "next less severe level."},
    {"limit_req_status", IN_HTTP_ALL, NUMBER(S, status), .min = 400, .max = 599, .initial = "503",
     .doc = "Status of the response to a refused request."},
    {"limit_req_dry_run", IN_HTTP_ALL, FLAG(S, is_dry_run), .initial = "off",
     .doc = "Enables the dry run mode: nothing is refused or delayed; the log and "
            "`$limit_req_status` show what would be."},
    {0},
};
#undef S

static const struct variable req_variables[] = {
    {.name = STR_INIT("limit_req_status"),
     .doc = "Result of the limits: PASSED, DELAYED, REJECTED, DELAYED_DRY_RUN or "
            "REJECTED_DRY_RUN.",
     .get = limit_req_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook req_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "limit_req",
     .run = limit_requests,
     .when = SETTING(req_key, struct req_settings, limits.count)},
    {.run = NULL},
};

static const struct http_module req_hooks = {.variables = req_variables, .phases = req_phases};

/* ---- nodes that share zones ---- */

static void each_sync(struct generation *generation, void (*run)(struct bucket_sync *sync))
{
    struct limit_zone *zone = limit_zones_of(&generation->conf, &req_kind);

    for (; zone != NULL; zone = zone->next) {
        if (((struct req_zone *) zone)->sync != NULL) {
            run(((struct req_zone *) zone)->sync);
        }
    }
}

static bool req_configured(struct conf *conf, struct generation *generation)
{
    struct limit_zone *zone = limit_zones_of(conf, &req_kind);

    for (; conf->error_count == 0 && zone != NULL; zone = zone->next) {
        struct req_zone *own = (struct req_zone *) zone;
        if (own->sync != NULL) {
            own->sync->burst = own->burst;
            bucket_sync_prepare(own->sync);
        }
    }
    return true;
}

/* One worker exchanges data for all. */
static bool req_worker_start(struct generation *generation)
{
    if (worker_slot == 0 && worker_role == WORKER_SERVES) {
        each_sync(generation, bucket_sync_start);
    }
    return true;
}

static void req_worker_quit(struct generation *generation)
{
    each_sync(generation, bucket_sync_end);
}

const struct module ngx_http_limit_req_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_limit_req_module",
    .kind = MODULE_HTTP,
    .table = {.key = &req_key,
              .rows = req_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct req_settings)},
    .hooks = &req_hooks,
    .configured = req_configured,
    .worker_start = req_worker_start,
    .worker_quit = req_worker_quit,
};
