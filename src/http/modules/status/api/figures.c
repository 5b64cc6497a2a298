/* Collections of the service, its zones, caches and limits. The values are the same as those of
 * `metrics`. */
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "http/client/connection.h"
#include "http/modules/status/api/api.h"
#include "server/generation.h"
#include "shared/explain/explanations.h"
#include "shared/limit/zone.h"
#include "shared/metrics/json.h"
#include "shared/metrics/zones.h"
#include "store/table.h"
#include "upstream/settings/resolver_rows.h"

enum { SLOTS_MOST = 512, SLOTS_SIZE = 512 << 10 };

/* Values of the service's counters at their reset; the counters themselves only rise, as `metrics`
 * shows them. */
struct api_base {
    struct slot_counters connections, tls, requests, processes;
    struct slot_counters workers[SLOTS_MOST]; /* of the process that they name */
};

static struct api_base *base_now(void)
{
    struct zone **zone = conf_state(&generation_now->conf, "api base", sizeof(*zone));

    return (*zone)->root;
}

bool api_figures_prepare(struct conf *conf, struct conf_node *node)
{
    static const char user;
    struct zone **zone = conf_state(conf, "api base", sizeof(*zone));

    *zone = generation_zone(conf->generation, node, STR("_api"), SLOTS_SIZE, &user);
    if (*zone == NULL) {
        return false;
    }
    if ((*zone)->root == NULL) {
        (*zone)->root = slab_alloc((*zone)->slab, sizeof(struct api_base));
    }
    return (*zone)->root != NULL || conf_error(conf, node, "zone \"_api\" is too small");
}

/* Subtracts the values at the reset; numbers of open connections or requests are unchanged. */
static void subtract(struct slot_counters *now, const struct slot_counters *base)
{
#define SINCE(member) now->member = now->member > base->member ? now->member - base->member : 0
    SINCE(accepted);
    SINCE(handled);
    SINCE(requests);
    SINCE(tls_handshakes);
    SINCE(tls_resumed);
    SINCE(tls_failures);
    SINCE(tls_no_protocol);
    SINCE(tls_no_cipher);
    SINCE(tls_timeouts);
    SINCE(tls_rejected);
    SINCE(tls_no_certificate);
    SINCE(tls_expired);
    SINCE(tls_revoked);
    SINCE(tls_unverified);
    SINCE(respawned);
#undef SINCE
}

static struct slot_counters sum_since(const struct slot_counters *base)
{
    struct slot_counters sum;

    counters_sum(&sum);
    subtract(&sum, base);
    return sum;
}

/* ---- single objects ---- */

static void list_single(struct request *request, const struct api_collection *collection,
                        struct vec *things)
{
    *vec_add(things, &request->arena, struct api_thing) = (struct api_thing){.name = STR("")};
}

static void put_service(struct request *request, struct json *json, const struct api_thing *thing)
{
    char address[ADDR_TEXT_MAX];
    size_t length = addr_format(connection_local(request->connection), false, address);

    json_put_string(json, "version", STR(NGINX_COMPAT_VERSION));
    json_put_string(json, "build", STR("Portunus-" PORTUNUS_VERSION));
    json_put_string(json, "address", (struct str){address, length});
    json_put_number(json, "generation", generation_now->number);
    json_put_time(json, "load_timestamp", generation_now->read_ms);
    json_put_time(json, "timestamp", (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
    json_put_number(json, "pid", (uint64_t) getpid());
    json_put_number(json, "ppid", (uint64_t) getppid());
}

static void put_processes(struct request *request, struct json *json, const struct api_thing *thing)
{
    json_put_number(json, "respawned", sum_since(&base_now()->processes).respawned);
}

static void reset_processes(struct request *request, const struct api_thing *thing)
{
    counters_sum(&base_now()->processes);
}

static void put_connections(struct request *request, struct json *json,
                            const struct api_thing *thing)
{
    struct slot_counters sum = sum_since(&base_now()->connections);

    json_put_connections(json, &sum);
}

static void reset_connections(struct request *request, const struct api_thing *thing)
{
    counters_sum(&base_now()->connections);
}

static void put_tls(struct request *request, struct json *json, const struct api_thing *thing)
{
    struct slot_counters sum = sum_since(&base_now()->tls);

    json_put_tls(json, &sum);
}

static void reset_tls(struct request *request, const struct api_thing *thing)
{
    counters_sum(&base_now()->tls);
}

static void put_requests(struct request *request, struct json *json, const struct api_thing *thing)
{
    struct slot_counters sum = sum_since(&base_now()->requests);

    json_put_requests(json, &sum);
}

static void reset_requests(struct request *request, const struct api_thing *thing)
{
    counters_sum(&base_now()->requests);
}

/* ---- workers ---- */

static void list_workers(struct request *request, const struct api_collection *collection,
                         struct vec *things)
{
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        if (workers_pid(slot) != 0) {
            *vec_add(things, &request->arena, struct api_thing) =
                (struct api_thing){.name = arena_printf(&request->arena, "%u", slot),
                                   .number = slot};
        }
    }
}

static void put_worker(struct request *request, struct json *json, const struct api_thing *thing)
{
    struct slot_counters now = {0};
    unsigned slot = (unsigned) thing->number;

    worker_counters(slot, &now);
    if (slot < SLOTS_MOST && base_now()->workers[slot].pid == now.pid) {
        subtract(&now, &base_now()->workers[slot]);
    }
    json_put_number(json, "id", slot);
    json_put_number(json, "pid", now.pid);
    json_open(json, STR("connections"), '{');
    json_put_connections(json, &now);
    json_close(json, '}');
    json_open(json, STR("http"), '{');
    json_open(json, STR("requests"), '{');
    json_put_requests(json, &now);
    json_close(json, '}');
    json_close(json, '}');
}

static void reset_worker(struct request *request, const struct api_thing *thing)
{
    if (thing->number < SLOTS_MOST) {
        worker_counters((unsigned) thing->number, &base_now()->workers[thing->number]);
    }
}

/* ---- zones of shared memory ---- */

static void list_slabs(struct request *request, const struct api_collection *collection,
                       struct vec *things)
{
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab != NULL) {
            *vec_add(things, &request->arena, struct api_thing) =
                (struct api_thing){.name = zone->name, .thing = zone};
        }
    }
}

static void put_slab(struct request *request, struct json *json, const struct api_thing *thing)
{
    json_put_slab(json, thing->thing);
}

static void reset_slab(struct request *request, const struct api_thing *thing)
{
    slab_stats_reset(((const struct zone *) thing->thing)->slab);
}

/* ---- status_zone ---- */

static const enum series_kind kinds[] = {SERIES_SERVER, SERIES_ZONE, SERIES_STREAM_SERVER};

static void list_zones(struct request *request, const struct api_collection *collection,
                       struct vec *things)
{
    const enum series_kind *kind = collection->kind;

    vec_each(const struct status_zone, zone, &status_zones_of(&generation_now->conf)->zones) {
        if (zone->kind == *kind) {
            *vec_add(things, &request->arena, struct api_thing) =
                (struct api_thing){.name = zone->name,
                                   .number = metrics_find(*kind, zone->name),
                                   .thing = kind};
        }
    }
}

static void put_zone(struct request *request, struct json *json, const struct api_thing *thing)
{
    const enum series_kind *kind = thing->thing;

    json_put_series(json, *kind, (unsigned) thing->number, *kind != SERIES_ZONE);
}

static void reset_zone(struct request *request, const struct api_thing *thing)
{
    if (thing->number != SERIES_NONE && !metrics_reset((unsigned) thing->number)) {
        log_error(&request->log, 0, "api: metrics_zone_size is too small to reset a zone");
    }
}

/* ---- caches ---- */

/* A list being built. */
struct gathering {
    struct arena *arena;
    struct vec *things;
};

static void add_cache(const struct cache *cache, void *arg)
{
    const struct gathering *gathering = arg;

    *vec_add(gathering->things, gathering->arena, struct api_thing) =
        (struct api_thing){.name = cache->name, .thing = cache};
}

static void list_caches(struct request *request, const struct api_collection *collection,
                        struct vec *things)
{
    struct gathering gathering = {&request->arena, things};

    cache_each(generation_now, add_cache, &gathering);
}

static void put_cache(struct request *request, struct json *json, const struct api_thing *thing)
{
    json_put_cache(json, thing->thing);
}

static void reset_cache(struct request *request, const struct api_thing *thing)
{
    cache_stats_reset(thing->thing);
}

/* ---- limits ---- */

static void list_limits(struct request *request, const struct api_collection *collection,
                        struct vec *things)
{
    bool delays = str_is(str_of(collection->name), "limit_reqs");

    for (const struct limit_zone *zone = limit_zones_all(&generation_now->conf); zone != NULL;
         zone = zone->beside) {
        if (zone->kind->delays == delays &&
            str_is(str_of(collection->root), zone->kind->protocol)) {
            *vec_add(things, &request->arena, struct api_thing) =
                (struct api_thing){.name = zone->zone->name, .thing = zone};
        }
    }
}

static void put_limit(struct request *request, struct json *json, const struct api_thing *thing)
{
    limit_counts_put(json, thing->thing);
}

static void reset_limit(struct request *request, const struct api_thing *thing)
{
    limit_counts_reset(thing->thing);
}

/* ---- resolvers ---- */

static void list_resolvers(struct request *request, const struct api_collection *collection,
                           struct vec *things)
{
    vec_each(const struct resolver_zone, zone, resolver_zones_of(&generation_now->conf)) {
        *vec_add(things, &request->arena, struct api_thing) =
            (struct api_thing){.name = zone->name, .thing = zone->counts};
    }
}

static void put_resolver(struct request *request, struct json *json, const struct api_thing *thing)
{
    const struct resolver_counts *counts = thing->thing;

    json_open(json, STR("requests"), '{');
    json_put_number(json, "name", counts->requests[RESOLVER_NAMES]);
    json_put_number(json, "srv", counts->requests[RESOLVER_SERVICES]);
    json_put_number(json, "addr", counts->requests[RESOLVER_NAMES_OF]);
    json_close(json, '}');
    json_open(json, STR("responses"), '{');
    json_put_number(json, "noerror", counts->results[RESOLVE_OK]);
    json_put_number(json, "formerr", 0); /* such a response counts as servfail */
    json_put_number(json, "servfail", counts->results[RESOLVE_FAILED]);
    json_put_number(json, "nxdomain", counts->results[RESOLVE_NOT_FOUND]);
    json_put_number(json, "notimp", counts->results[RESOLVE_UNIMPLEMENTED]);
    json_put_number(json, "refused", counts->results[RESOLVE_REFUSED]);
    json_put_number(json, "timedout", counts->results[RESOLVE_TIMED_OUT]);
    json_put_number(json, "unknown", counts->results[RESOLVE_CANCELLED]);
    json_close(json, '}');
}

static void reset_resolver(struct request *request, const struct api_thing *thing)
{
    struct resolver_counts *counts = (struct resolver_counts *) thing->thing;

    for (unsigned i = 0; i < RESOLVER_QUESTIONS; i++) {
        atomic_store(&counts->requests[i], 0);
    }
    for (unsigned i = 0; i <= RESOLVE_CANCELLED; i++) {
        atomic_store(&counts->results[i], 0);
    }
}

/* ---- zones shared by nodes ---- */

static uint64_t sum_of_tables(enum store_table_counter counter)
{
    uint64_t sum = 0;

    for (const struct store_table *table = store_table_first(&generation_now->conf); table != NULL;
         table = store_table_after(table)) {
        sum += store_table_count(table, counter);
    }
    return sum;
}

static uint64_t sum_of_stores(enum store_counter counter)
{
    uint64_t sum = 0;

    for (const struct store *store = store_first(&generation_now->conf); store != NULL;
         store = store_after(store)) {
        sum += atomic_load(&store_counts_of(store)->of[counter]);
    }
    return sum;
}

/* Nodes are connected to stores, not to each other. */
static uint64_t count_stores(void)
{
    uint64_t count = 0;

    for (const struct store *store = store_first(&generation_now->conf); store != NULL;
         store = store_after(store)) {
        count += atomic_load(&store_counts_of(store)->is_gone) == 0;
    }
    return count;
}

static void put_sync(struct request *request, struct json *json, const struct api_thing *thing)
{
    json_open(json, STR("zones"), '{');
    for (const struct store_table *table = store_table_first(&generation_now->conf); table != NULL;
         table = store_table_after(table)) {
        uint64_t total;

        json_open(json, store_table_name(table), '{');
        json_put_number(json, "records_pending", store_table_waiting(table));
        if (store_table_total(table, &total)) {
            json_put_number(json, "records_total", total);
        }
        json_close(json, '}');
    }
    json_close(json, '}');
    json_open(json, STR("status"), '{');
    json_put_number(json, "bytes_in", sum_of_stores(STORE_BYTES_IN));
    json_put_number(json, "msgs_in", sum_of_tables(STORE_TABLE_RECEIVED));
    json_put_number(json, "msgs_out", sum_of_tables(STORE_TABLE_SENT));
    json_put_number(json, "bytes_out", sum_of_stores(STORE_BYTES_OUT));
    json_put_number(json, "nodes_online", count_stores());
    json_close(json, '}');
}

/* ---- license, for monitors of nginx Plus: none is needed, and nothing is reported ---- */

static void put_license(struct request *request, struct json *json, const struct api_thing *thing)
{
    const uint64_t never = 253402300799; /* the end of the year 9999 */

    json_put_number(json, "active_till", never);
    json_put_flag(json, "eval", false);
    json_open(json, STR("reporting"), '{');
    json_put_flag(json, "healthy", true);
    json_put_number(json, "fails", 0);
    json_put_number(json, "grace", 0);
    json_put_string(json, "uuid", STR("00000000-0000-0000-0000-000000000000"));
    json_close(json, '}');
}

/* ---- explanations of requests ---- */

static bool find_explanation(struct request *request, struct str id, struct api_thing *thing)
{
    struct str *text = arena_new(&request->arena, struct str);

    thing->thing = text;
    return explanation_find(&generation_now->conf, id, &request->arena, text);
}

/* The text is already an object: writes its members. */
static void put_explanation(struct request *request, struct json *json,
                            const struct api_thing *thing)
{
    const struct str *text = thing->thing;

    buf_append(json->out, str_head(str_skip(*text, 1), text->len - 2));
    json->has_member = true;
}

static void drop_explanation(struct request *request, const struct api_thing *thing)
{
    explanation_drop(&generation_now->conf, thing->name);
}

/* ---- all ---- */

/* clang-format off */
static const struct api_since newer_of_zones[] = {
    {"codes", 7},
    {NULL, 0},
};
static const struct api_since newer_of_tls[] = {
    {"no_common_protocol", 8},
    {"no_common_cipher", 8},
    {"handshake_timeout", 8},
    {"peer_rejected_cert", 8},
    {"verify_failures", 8},
    {NULL, 0},
};
/* clang-format on */

#define SINGLE(ROOT, NAME, PUT, RESET)                                                             \
    {                                                                                              \
        .root = ROOT, .name = NAME, .list = list_single, .put = PUT, .reset = RESET,               \
        .is_single = true                                                                          \
    }
#define MANY(ROOT, NAME, LIST, PUT, RESET, CODE, TEXT)                                             \
    .root = ROOT, .name = NAME, .list = LIST, .put = PUT, .reset = RESET, .code = CODE, .text = TEXT

const struct api_collection api_figures[] = {
    SINGLE("", "nginx", put_service, NULL),
    SINGLE("", "processes", put_processes, reset_processes),
    SINGLE("", "connections", put_connections, reset_connections),
    {.root = "",
     .name = "ssl",
     .list = list_single,
     .put = put_tls,
     .reset = reset_tls,
     .newer = newer_of_tls,
     .is_single = true},
    SINGLE("http", "requests", put_requests, reset_requests),
    SINGLE("", "license", put_license, NULL),
    SINGLE("stream", "zone_sync", put_sync, NULL),
    {MANY("", "explain", NULL, put_explanation, drop_explanation, "ExplanationNotFound",
          "no such explanation: its request has not ended, or others took its place"),
     .find = find_explanation},
    {MANY("", "slabs", list_slabs, put_slab, reset_slab, "SlabNotFound", "slab not found")},
    {MANY("", "workers", list_workers, put_worker, reset_worker, "WorkerNotFound",
          "worker not found"),
     .is_array = true, .resets_all = true},
    {MANY("", "resolvers", list_resolvers, put_resolver, reset_resolver, "ResolverZoneNotFound",
          "resolver zone not found")},
    {MANY("http", "server_zones", list_zones, put_zone, reset_zone, "ServerZoneNotFound",
          "server zone not found"),
     .newer = newer_of_zones, .kind = &kinds[0]},
    {MANY("http", "location_zones", list_zones, put_zone, reset_zone, "LocationZoneNotFound",
          "location zone not found"),
     .newer = newer_of_zones, .kind = &kinds[1]},
    {MANY("http", "caches", list_caches, put_cache, reset_cache, "CacheNotFound",
          "cache not found")},
    {MANY("http", "limit_conns", list_limits, put_limit, reset_limit, "LimitConnNotFound",
          "limit_conn not found")},
    {MANY("http", "limit_reqs", list_limits, put_limit, reset_limit, "LimitReqNotFound",
          "limit_req not found")},
    {MANY("stream", "server_zones", list_zones, put_zone, reset_zone, "ServerZoneNotFound",
          "server zone not found"),
     .kind = &kinds[2]},
    {MANY("stream", "limit_conns", list_limits, put_limit, reset_limit, "LimitConnNotFound",
          "limit_conn not found")},
    {.root = NULL},
};
