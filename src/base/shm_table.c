/* A table in a zone of shared memory: records of one size, found by key, in order of use. */
#include "base/shm_table.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checksum.h"
#include "base/log.h"

enum {
    SMALL_SIZE = 512 << 10, /* bytes: a smaller zone has small segments */
    SMALL_SHIFT = 6,        /* log2 of the records in a small segment (64) */
    LARGE_SHIFT = 9, /* log2 of the records in a large one (512); both waste few pages with records
                        of 48 and 56 bytes */
    SEGMENTS_LEAST = 8,   /* fewer records in a segment, if records are so large that there would be
                             fewer segments */
    RECORDS_PER_HEAD = 2, /* records per hash head when the table is full */
    PAGE = 4096,          /* unit of large pieces of a zone */
};

#define NONE SHM_NO_RECORD

/* Records are in segments, which are allocated when they are needed. The mapping has the same
 * address in all processes. */
struct shm_table {
    struct shm_lock lock;
    struct slab *slab;       /* of the zone */
    uint64_t secret[4];      /* for the two halves of keys */
    uint32_t record_size;    /* bytes */
    uint32_t used;           /* records that were ever taken: those with lower numbers */
    uint32_t free;           /* first of the records that were freed */
    uint32_t newest, oldest; /* by last use */
    uint32_t heads_mask;     /* number of hash heads minus one */
    uint32_t segment_count;  /* segments that fit into the zone */
    uint32_t segment_shift;  /* log2 of the records in a segment */
    uint32_t *heads;         /* first record of each hash head */
    char **segments;         /* NULL: not allocated yet */
    void *head;              /* data of the user */
};

static struct shm_record *at(const struct shm_table *table, uint32_t number)
{
    char *segment = table->segments[number >> table->segment_shift];
    uint32_t position = number & ((1U << table->segment_shift) - 1);

    return (struct shm_record *) (void *) (segment + (size_t) position * table->record_size);
}

/* This store decides the state of a record if the process dies: all earlier stores come before
 * it. */
static void set_kind(struct shm_record *record, enum shm_record_kind kind)
{
    atomic_signal_fence(memory_order_seq_cst);
    record->kind = kind;
    atomic_signal_fence(memory_order_seq_cst);
}

/* ---- lists ---- */

static uint32_t *head_of(const struct shm_table *table, const struct shm_key *key)
{
    return &table->heads[key->words[0] & table->heads_mask];
}

static void link_key(struct shm_table *table, uint32_t number)
{
    uint32_t *head = head_of(table, &at(table, number)->key);

    at(table, number)->next = *head;
    *head = number;
}

static void unlink_key(struct shm_table *table, uint32_t number)
{
    uint32_t *link = head_of(table, &at(table, number)->key);

    while (*link != number) {
        link = &at(table, *link)->next;
    }
    *link = at(table, number)->next;
}

static void link_use(struct shm_table *table, uint32_t number)
{
    struct shm_record *record = at(table, number);

    record->newer = NONE;
    record->older = table->newest;
    *(table->newest == NONE ? &table->oldest : &at(table, table->newest)->newer) = number;
    table->newest = number;
}

static void unlink_use(struct shm_table *table, uint32_t number)
{
    const struct shm_record *record = at(table, number);

    *(record->newer == NONE ? &table->newest : &at(table, record->newer)->older) = record->older;
    *(record->older == NONE ? &table->oldest : &at(table, record->older)->newer) = record->newer;
}

static void link_free(struct shm_table *table, uint32_t number)
{
    at(table, number)->next = table->free;
    table->free = number;
}

/* Rebuilds all lists from the kinds of the records. */
static void rebuild(struct shm_table *table)
{
    memset(table->heads, 0xff, ((size_t) table->heads_mask + 1) * sizeof(*table->heads));
    table->free = table->newest = table->oldest = NONE;
    for (uint32_t i = 0; i < table->used; i++) {
        switch (at(table, i)->kind) {
        case SHM_KEYED:
            link_key(table, i);
            link_use(table, i);
            break;
        case SHM_PLAIN:
            break;
        default:
            link_free(table, i);
        }
    }
}

/* ---- creation ---- */

static size_t round_up(size_t size, size_t step)
{
    return (size + step - 1) / step * step;
}

static size_t segment_size(const struct shm_table *table)
{
    return round_up((size_t) table->record_size << table->segment_shift, PAGE);
}

/* Computes how many segments and hash heads the zone can have, and allocates them. False: not even
   one segment fits. */
static bool lay_out(struct shm_table *table)
{
    size_t available = slab_available(table->slab), heads = 1;

    while (heads * 2 * RECORDS_PER_HEAD <= available / table->record_size) {
        heads *= 2;
    }
    table->heads_mask = (uint32_t) heads - 1;
    table->heads = slab_alloc(table->slab, heads * sizeof(*table->heads));
    table->segment_shift = available < SMALL_SIZE ? SMALL_SHIFT : LARGE_SHIFT;
    while (table->segment_shift > 0 && segment_size(table) > PAGE &&
           segment_size(table) > available / SEGMENTS_LEAST) {
        table->segment_shift--; /* large records: none would fit into a small zone otherwise */
    }
    size_t segments = available / segment_size(table), most = NONE >> table->segment_shift;
    table->segment_count = (uint32_t) (segments < most ? segments : most);
    table->segments =
        slab_alloc(table->slab, (table->segment_count + 1) * sizeof(*table->segments));
    if (table->heads == NULL || table->segments == NULL) {
        return false;
    }
    table->segments[0] = slab_alloc(table->slab, segment_size(table));
    return table->segments[0] != NULL;
}

struct shm_table *shm_table_of(struct zone *zone, size_t record_size, size_t head_size)
{
    struct shm_table *table = zone->root;

    if (table != NULL) {
        return table;
    }
    table = slab_alloc(zone->slab, round_up(sizeof(*table), 16) + head_size);
    if (table == NULL) {
        return NULL;
    }
    table->slab = zone->slab;
    table->record_size = (uint32_t) record_size;
    table->head = (char *) table + round_up(sizeof(*table), 16);
    if (!lay_out(table)) {
        return NULL; /* the zone is unusable, so nothing is freed */
    }
    shm_lock_init(&table->lock);
    random_bytes(table->secret, sizeof(table->secret));
    rebuild(table);
    zone->root = table;
    return table;
}

void *shm_table_head(const struct shm_table *table)
{
    return table->head;
}

struct shm_key shm_table_key(const struct shm_table *table, struct str bytes)
{
    return (struct shm_key){
        {siphash_1_3(bytes, table->secret), siphash_1_3(bytes, table->secret + 2)}};
}

/* ---- use ---- */

bool shm_table_lock(struct shm_table *table)
{
    if (!shm_lock_take(&table->lock)) {
        return false;
    }
    rebuild(table);
    log_alert(log_main, 0,
              "a process died while it changed a table in shared memory; the table was repaired");
    return true;
}

void shm_table_unlock(struct shm_table *table)
{
    shm_lock_release(&table->lock);
}

void *shm_table_find(struct shm_table *table, const struct shm_key *key)
{
    uint32_t number = *head_of(table, key);

    while (number != NONE) {
        struct shm_record *record = at(table, number);

        if (memcmp(&record->key, key, sizeof(*key)) == 0) {
            return record;
        }
        number = record->next;
    }
    return NULL;
}

/* Is there memory for another record that was never taken? Allocates its segment. */
static bool has_room(struct shm_table *table)
{
    uint32_t segment = table->used >> table->segment_shift;

    if (segment == table->segment_count) {
        return false;
    }
    if (table->segments[segment] == NULL) {
        table->segments[segment] = slab_alloc(table->slab, segment_size(table));
    }
    return table->segments[segment] != NULL;
}

/* The number of a cleared record that is in no list; it counts as free until its kind is set. */
static uint32_t take_free(struct shm_table *table)
{
    uint32_t number = table->free;

    if (number != NONE) {
        table->free = at(table, number)->next;
        memset(at(table, number), 0, table->record_size);
    } else if (has_room(table)) {
        number = table->used++;
    }
    return number;
}

void *shm_table_add(struct shm_table *table, const struct shm_key *key)
{
    uint32_t number = take_free(table);

    if (number == NONE) {
        return NULL;
    }
    struct shm_record *record = at(table, number);
    record->number = number;
    record->key = *key;
    link_key(table, number);
    link_use(table, number);
    set_kind(record, SHM_KEYED);
    return record;
}

void *shm_table_take(struct shm_table *table)
{
    uint32_t number = take_free(table);

    if (number == NONE) {
        return NULL;
    }
    at(table, number)->number = number;
    set_kind(at(table, number), SHM_PLAIN);
    return at(table, number);
}

void shm_table_drop(struct shm_table *table, void *record)
{
    struct shm_record *dropped = record;
    uint32_t number = dropped->number;
    bool is_keyed = dropped->kind == SHM_KEYED;

    set_kind(dropped, SHM_FREE);
    if (is_keyed) {
        unlink_key(table, number);
        unlink_use(table, number);
    }
    link_free(table, number);
}

void shm_table_touch(struct shm_table *table, void *record)
{
    uint32_t number = ((const struct shm_record *) record)->number;

    if (table->newest != number) {
        unlink_use(table, number);
        link_use(table, number);
    }
}

void *shm_table_oldest(const struct shm_table *table)
{
    return table->oldest == NONE ? NULL : at(table, table->oldest);
}

uint32_t shm_table_count(const struct shm_table *table)
{
    return table->used;
}

void *shm_table_at(const struct shm_table *table, uint32_t number)
{
    return at(table, number);
}

uint32_t shm_table_capacity(const struct shm_table *table)
{
    return table->segment_count << table->segment_shift;
}
