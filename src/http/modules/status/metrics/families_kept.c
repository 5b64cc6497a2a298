/* Metrics of data that other packages keep in zones: limits, caches, keyvals, stores, discovery,
 * orders of certificates. */
#include "base/shm.h"
#include "cache/shared_fetch.h"
#include "http/modules/status/metrics/families.h"
#include "server/generation.h"
#include "shared/keyval/keyval.h"
#include "shared/limit/zone.h"
#include "shared/metrics/orders.h"
#include "shared/metrics/peers.h"
#include "store/table.h"
#include "upstream/discovery/discovery.h"

/* ---- limits ---- */

static void write_limits(struct metrics_writer *writer)
{
    const struct limit_zone *zone = limit_zones_all(&generation_now->conf);

    family_begin(writer, FAMILY_COUNTER, "portunus_limit_zone_decisions",
                 "What zones of limits decided, of requests or sessions; each counts its own.");
    for (; zone != NULL; zone = zone->beside) {
        struct label labels[] = {
            {"limit", limit_kind_word(zone->kind)},
            {"protocol", str_of(zone->kind->protocol)},
            {"zone", zone->zone->name},
            {"decision", STR_NONE},
            {NULL, STR_NONE},
        };

        for (unsigned i = 0; i < LIMIT_OUTCOMES; i++) {
            if ((i == LIMIT_DELAYED || i == LIMIT_DELAYED_DRY_RUN) && !zone->kind->delays) {
                continue;
            }
            labels[3].value = limit_outcome_names[i];
            families_put(writer, labels, atomic_load(&zone->counts->of[i]));
        }
    }
}

/* ---- caches and zones ---- */

static void put_cache_bytes(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    families_put(arg, LABELS({"cache", cache->name}), stats.bytes);
}

static void put_cache_entries(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    families_put(arg, LABELS({"cache", cache->name}), stats.entries);
}

static void put_cache_requests(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("hit")}), stats.hits);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("miss")}), stats.misses);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("expired")}), stats.expired);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("stale")}), stats.stale);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("updating")}), stats.updating);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("revalidated")}),
                 stats.revalidated);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("bypass")}), stats.bypassed);
    families_put(arg, LABELS({"cache", cache->name}, {"status", STR("scarce")}), stats.scarce);
}

static void put_cache_shared(const struct cache *cache, void *arg)
{
    static const char *const outcomes[CACHE_SHARED_COUNTERS] = {
        [CACHE_SHARED_FETCHED] = "fetched",   [CACHE_SHARED_GIVEN] = "given",
        [CACHE_SHARED_WITHHELD] = "withheld", [CACHE_SHARED_DROPPED] = "dropped",
        [CACHE_SHARED_TAKEN] = "taken",       [CACHE_SHARED_TIMED_OUT] = "timed_out",
        [CACHE_SHARED_GONE] = "store_gone",   [CACHE_SHARED_UNREADABLE] = "unreadable",
    };

    for (unsigned i = 0; cache->has_shared_fetches && i < CACHE_SHARED_COUNTERS; i++) {
        families_put(arg, LABELS({"cache", cache->name}, {"outcome", str_of(outcomes[i])}),
                     cache_shared_figure(cache, (enum cache_shared_counter) i));
    }
}

static void write_caches(struct metrics_writer *writer)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_cache_bytes", "Bytes on disk.");
    cache_each(generation_now, put_cache_bytes, writer);
    family_begin(writer, FAMILY_GAUGE, "portunus_cache_entries", "Responses that are stored.");
    cache_each(generation_now, put_cache_entries, writer);
    family_begin(writer, FAMILY_COUNTER, "portunus_cache_requests",
                 "Requests by how the cache served them.");
    cache_each(generation_now, put_cache_requests, writer);
    if (fetch_share_is_used(&generation_now->conf)) {
        family_begin(writer, FAMILY_COUNTER, "portunus_cache_shared_fetches",
                     "Fetches for all nodes, by what became of them.");
        cache_each(generation_now, put_cache_shared, writer);
    }
}

static void write_zones(struct metrics_writer *writer)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_shared_memory_bytes", "Zones of shared memory.");
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab == NULL) {
            continue;
        }
        size_t others = shown_servers_size(zone), available = slab_available(zone->slab);
        available = available > others ? available - others : 0;
        families_put(writer, LABELS({"zone", zone->name}, {"state", STR("free")}), available);
        families_put(writer, LABELS({"zone", zone->name}, {"state", STR("used")}),
                     zone->size > available ? zone->size - available : 0);
    }
}

static void write_keyvals(struct metrics_writer *writer)
{
    const struct keyval_kind *const kinds[] = {&keyval_http, &keyval_stream};

    family_begin(writer, FAMILY_GAUGE, "portunus_keyval_pairs",
                 "Keys and values in zones, of which some may have expired.");
    for (unsigned i = 0; i < 2; i++) {
        const struct keyval_zone *zone = keyval_zones_of(&generation_now->conf, kinds[i]);

        for (; zone != NULL; zone = zone->next) {
            if (zone->redis == NULL) {
                families_put(writer, LABELS({"zone", zone->zone->name}), keyval_count(zone->store));
            }
        }
    }
}

static void write_stores(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[STORE_COUNTERS] = {
        [STORE_REQUESTS] = {"portunus_store_requests", "Commands sent to stores."},
        [STORE_REPLIES] = {"portunus_store_replies", "Replies that came in time."},
        [STORE_ERRORS] = {"portunus_store_errors", "Replies that were errors."},
        [STORE_TIMEOUTS] = {"portunus_store_timeouts", "Commands without a reply in time."},
        [STORE_UNAVAILABLE] = {"portunus_store_unavailable",
                               "Commands that failed as the store was not connected."},
        [STORE_REDIRECTS] = {"portunus_store_redirects", "Commands sent to another server again."},
        [STORE_CONNECTS] = {"portunus_store_connections", "Connections made to stores."},
        [STORE_FAILURES] = {"portunus_store_connection_failures",
                            "Connections that failed or ended."},
        [STORE_BYTES_OUT] = {"portunus_store_sent_bytes", "Bytes of commands."},
        [STORE_BYTES_IN] = {"portunus_store_received_bytes", "Bytes of replies."},
    };
    const struct store *first = store_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < STORE_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct store *store = first; store != NULL; store = store_after(store)) {
            families_put(writer, LABELS({"store", store_name(store)}),
                         atomic_load(&store_counts_of(store)->of[i]));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_store_gone",
                     "1: the store is not reached, and zones continue locally.");
    }
    for (const struct store *store = first; store != NULL; store = store_after(store)) {
        families_put(writer, LABELS({"store", store_name(store)}),
                     atomic_load(&store_counts_of(store)->is_gone));
    }
}

/* Zones that nodes share. */
static void write_tables(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[STORE_TABLE_COUNTERS] = {
        [STORE_TABLE_SENT] = {"portunus_sync_sent", "Changes that the store took."},
        [STORE_TABLE_RECEIVED] = {"portunus_sync_received", "Items read from the store."},
        [STORE_TABLE_NO_ROOM] = {"portunus_sync_no_room",
                                 "Items of other nodes that the zone had no room for."},
        [STORE_TABLE_UNREADABLE] = {"portunus_sync_unreadable",
                                    "Items that no node with this password wrote."},
        [STORE_TABLE_TOO_LARGE] = {"portunus_sync_too_large",
                                   "Items that are too large for other nodes."},
        [STORE_TABLE_FORGOTTEN] = {"portunus_sync_forgotten",
                                   "Changes lost as too many waited for the store."},
        [STORE_TABLE_READS] = {"portunus_sync_reads", "Times that all items were read."},
    };
    const struct store_table *first = store_table_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < STORE_TABLE_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct store_table *at = first; at != NULL; at = store_table_after(at)) {
            families_put(writer, LABELS({"zone", store_table_name(at)}),
                         store_table_count(at, (enum store_table_counter) i));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_sync_waiting",
                     "Changes that the store does not have yet.");
    }
    for (const struct store_table *at = first; at != NULL; at = store_table_after(at)) {
        families_put(writer, LABELS({"zone", store_table_name(at)}), store_table_waiting(at));
    }
}

static void write_discoveries(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[DISCOVERY_COUNTERS] = {
        [DISCOVERY_REQUESTS] = {"portunus_discovery_requests", "Requests to engines of discovery."},
        [DISCOVERY_CHANGES] = {"portunus_discovery_changes",
                               "Changes of the addresses of services."},
        [DISCOVERY_FAILURES] = {"portunus_discovery_failures",
                                "Requests and watches that failed, and their pauses."},
        [DISCOVERY_REJECTED] = {"portunus_discovery_rejected",
                                "Answers that were malformed or above a limit."},
        [DISCOVERY_SKIPPED] = {"portunus_discovery_skipped",
                               "Entries of answers without an address that can be used."},
    };
    const struct discovery *first = discovery_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < DISCOVERY_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct discovery *one = first; one != NULL; one = discovery_after(one)) {
            families_put(writer, LABELS({"discovery", discovery_name(one)}),
                         atomic_load(&discovery_counts_of(one)->of[i]));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_discovery_failing",
                     "Services whose engine does not answer: their addresses stay as they are.");
    }
    for (const struct discovery *one = first; one != NULL; one = discovery_after(one)) {
        families_put(writer, LABELS({"discovery", discovery_name(one)}), discovery_failing(one));
    }
}

/* ---- orders of certificates ---- */

static void write_orders(struct metrics_writer *writer)
{
    static const char *const kinds[] =
        {[ORDERS_LIMITED] = "limited", [ORDERS_REFUSED] = "refused", [ORDERS_FAILED] = "other"};
    const struct vec *issuers = issuer_counts_of(&generation_now->conf);

    if (issuers->count == 0) {
        return;
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders", "Orders of certificates.");
    vec_each(const struct issuer_counts, one, issuers) {
        families_put(writer, LABELS({"issuer", one->name}),
                     atomic_load(&one->counts->of[ORDERS_STARTED]));
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders_issued",
                 "Orders that gave a certificate.");
    vec_each(const struct issuer_counts, one, issuers) {
        families_put(writer, LABELS({"issuer", one->name}),
                     atomic_load(&one->counts->of[ORDERS_ISSUED]));
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders_failed",
                 "Orders that failed, by kind.");
    vec_each(const struct issuer_counts, one, issuers) {
        for (unsigned kind = ORDERS_LIMITED; kind < ORDER_COUNTS; kind++) {
            families_put(writer, LABELS({"issuer", one->name}, {"kind", str_of(kinds[kind])}),
                         atomic_load(&one->counts->of[kind]));
        }
    }
    family_begin(writer, FAMILY_GAUGE, "portunus_acme_next_order_timestamp_seconds",
                 "When the next order is due.");
    vec_each(const struct issuer_counts, one, issuers) {
        families_put(writer, LABELS({"issuer", one->name}), atomic_load(&one->counts->next_s));
    }
}

void families_write_kept(struct metrics_writer *writer)
{
    write_limits(writer);
    write_caches(writer);
    write_orders(writer);
    write_zones(writer);
    write_keyvals(writer);
    write_stores(writer);
    write_tables(writer);
    write_discoveries(writer);
}
