/* Zones of reqstat: see zone.h. */
#include "http/modules/status/reqstat/zone.h"

#include "base/buf.h"
#include "base/clock.h"
#include "server/generation.h"

/* The table's header: the layout of its records. */
struct layout {
    uint64_t key_length;
    uint64_t counters;
};

#define REQSTAT_TEXT(name, text) STR_INIT(text),
const struct str reqstat_names[REQSTAT_FIXED] = {REQSTAT_COUNTERS(REQSTAT_TEXT)};
#undef REQSTAT_TEXT

static const char zone_user; /* its address identifies the owner of the zone */

unsigned reqstat_zone_counters(const struct reqstat_zone *zone)
{
    return REQSTAT_FIXED + (unsigned) zone->indicators.count;
}

static char *key_of(const struct reqstat_zone *zone, struct reqstat_record *record)
{
    return (char *) (record->counters + reqstat_zone_counters(zone));
}

static size_t record_size(const struct reqstat_zone *zone)
{
    return sizeof(struct reqstat_record) + reqstat_zone_counters(zone) * sizeof(uint64_t) +
           (zone->key_length + 7) / 8 * 8;
}

bool reqstat_zone_finish(struct conf *conf, struct reqstat_zone *zone, const struct conf_node *node)
{
    struct zone *memory = generation_zone(conf->generation, (struct conf_node *) node, zone->name,
                                          (size_t) zone->size, &zone_user);
    struct layout wanted = {zone->key_length, reqstat_zone_counters(zone)};
    size_t size = record_size(zone);

    if (memory == NULL) {
        return false;
    }
    bool is_new = memory->root == NULL;
    zone->table = shm_table_of(memory, size, sizeof(struct layout));
    if (zone->table == NULL) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(zone->name));
    }
    struct layout *layout = shm_table_head(zone->table);
    if (is_new) {
        *layout = wanted;
    }
    if (layout->key_length != wanted.key_length || layout->counters != wanted.counters) {
        conf_error(conf, node,
                   "req_status_zone \"%.*s\" has keys of %llu bytes and %llu counters while "
                   "previously it had %llu and %llu",
                   STR_ARG(zone->name), (unsigned long long) wanted.key_length,
                   (unsigned long long) wanted.counters, (unsigned long long) layout->key_length,
                   (unsigned long long) layout->counters);
        conf_hint(conf, "another name or size makes a fresh zone");
        return false;
    }
    return true;
}

/* ---- counting ---- */

static void see_period(const struct reqstat_zone *zone, struct reqstat_record *record)
{
    uint32_t period = (uint32_t) ((uint64_t) clock_now.seconds / zone->recycle_seconds);

    if (record->period != period) {
        record->former_rate = record->period + 1 == period ? record->rate : 0;
        record->rate = 0;
        record->period = period;
    }
}

/* Adds a record for a new key; if the table is full, replaces the least recently used one, provided
 * that it has few requests. */
static struct reqstat_record *add_record(struct reqstat_zone *zone, const struct shm_key *key)
{
    struct reqstat_record *record = shm_table_add(zone->table, key);

    if (record != NULL) {
        return record;
    }
    record = shm_table_oldest(zone->table);
    if (record == NULL) {
        return NULL;
    }
    see_period(zone, record);
    if (record->rate >= zone->recycle_times || record->former_rate >= zone->recycle_times) {
        return NULL;
    }
    shm_table_drop(zone->table, record);
    return shm_table_add(zone->table, key);
}

bool reqstat_zone_add(struct reqstat_zone *zone, struct str key, const uint64_t *counts)
{
    struct shm_key hash;
    unsigned count = reqstat_zone_counters(zone);

    hash = shm_table_key(zone->table, key);
    key = str_head(key, zone->key_length); /* the part that is stored */
    shm_table_lock(zone->table);
    struct reqstat_record *record = shm_table_find(zone->table, &hash);
    if (record == NULL && (record = add_record(zone, &hash)) != NULL) {
        str_put(key_of(zone, record), key);
        record->key_length = (uint32_t) key.len;
    } else if (record != NULL) {
        shm_table_touch(zone->table, record);
    }
    if (record != NULL) {
        see_period(zone, record);
        record->rate++;
        for (unsigned i = 0; i < count; i++) {
            record->counters[i] += counts[i];
        }
    }
    shm_table_unlock(zone->table);
    return record != NULL;
}

/* ---- output ---- */

void reqstat_zone_each(struct reqstat_zone *zone,
                       void (*visit)(struct str key, const uint64_t *counters, void *arg),
                       void *arg)
{
    struct buf copy = {0};

    shm_table_lock(zone->table);
    uint32_t i = shm_table_count(zone->table);
    shm_table_unlock(zone->table);
    while (i-- != 0) {
        copy.len = 0;
        shm_table_lock(zone->table);
        const struct reqstat_record *record = shm_table_at(zone->table, i);
        if (record->head.kind == SHM_KEYED) {
            buf_append(&copy, (struct str){(const char *) record, record_size(zone)});
        }
        shm_table_unlock(zone->table);
        if (copy.len != 0) {
            struct reqstat_record *taken = (struct reqstat_record *) (void *) copy.data;
            visit((struct str){key_of(zone, taken), taken->key_length}, taken->counters, arg);
        }
    }
    buf_free(&copy);
}
