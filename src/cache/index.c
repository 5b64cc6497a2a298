/* The index in a zone: entries by hash and in order of use. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fatal.h"
#include "base/clock.h"
#include "cache/internal.h"

enum {
    SEGMENT_SHIFT_MOST = 9, /* 512 entries: ten pages */
    EVICT_SEARCH_MOST = 32, /* entries examined for one that has no claim */
    EPOCH_SHARE = 4,        /* an epoch ends when one in so many entries is new */
    EPOCH_LEAST = 32,
    MERGE_LISTS = 32, /* for sorting: up to 2^32 entries */
};

/* ---- layout ---- */

static uint32_t bucket_count_for(size_t zone_size)
{
    uint32_t count = 64;

    while (count < zone_size / (sizeof(struct cache_entry) + sizeof(uint32_t)) &&
           count < 1u << 30) {
        count *= 2;
    }
    return count;
}

bool cache_index_make(struct zone *zone)
{
    struct cache_index *index = slab_alloc(zone->slab, sizeof(*index));

    if (index == NULL) {
        return false;
    }
    index->segment_shift = SEGMENT_SHIFT_MOST;
    while (index->segment_shift > 4 &&
           sizeof(struct cache_entry) << index->segment_shift > zone->size / 32) {
        index->segment_shift--;
    }
    uint32_t buckets = bucket_count_for(zone->size);
    index->bucket_mask = buckets - 1;
    index->buckets = slab_alloc(zone->slab, buckets * sizeof(uint32_t));
    index->segment_most =
        (uint32_t) (zone->size / (sizeof(struct cache_entry) << index->segment_shift)) + 1;
    index->segments = slab_alloc(zone->slab, index->segment_most * sizeof(index->segments[0]));
    if (index->buckets == NULL || index->segments == NULL) {
        return false;
    }
    shm_lock_init(&index->lock);
    index->capacity = UINT32_MAX;
    index->block_size = 4096;
    atomic_init(&index->is_cold, true);
    index->born = (uint64_t) cache_now_seconds();
    index->slab = zone->slab;
    index->magic = CACHE_INDEX_MAGIC;
    zone->root = index;
    return true;
}

struct cache_entry *cache_index_at(const struct cache_index *index, uint32_t number)
{
    uint32_t position = number - 1;

    return &index->segments[position >> index->segment_shift]
                           [position & ((1u << index->segment_shift) - 1)];
}

/* ---- buckets and order of use ---- */

static uint32_t *cache_index_bucket_of(const struct cache_index *index, const uint8_t *hash)
{
    uint32_t word;

    memcpy(&word, hash + 8, sizeof(word));
    return &index->buckets[word & index->bucket_mask];
}

static void order_push(struct cache_index *index, struct cache_entry *entry)
{
    entry->newer = 0;
    entry->older = index->newest;
    if (index->newest != 0) {
        cache_index_at(index, index->newest)->newer = entry->number;
    } else {
        index->oldest = entry->number;
    }
    index->newest = entry->number;
}

static void order_push_oldest(struct cache_index *index, struct cache_entry *entry)
{
    entry->older = 0;
    entry->newer = index->oldest;
    if (index->oldest != 0) {
        cache_index_at(index, index->oldest)->older = entry->number;
    } else {
        index->newest = entry->number;
    }
    index->oldest = entry->number;
}

static void order_remove(struct cache_index *index, struct cache_entry *entry)
{
    if (entry->newer != 0) {
        cache_index_at(index, entry->newer)->older = entry->older;
    } else {
        index->newest = entry->older;
    }
    if (entry->older != 0) {
        cache_index_at(index, entry->older)->newer = entry->newer;
    } else {
        index->oldest = entry->newer;
    }
}

/* ---- repair ---- */

static struct cache_entry *entry_or_none(const struct cache_index *index, uint32_t number)
{
    return number == 0 ? NULL : cache_index_at(index, number);
}

/* Merges two lists, linked by `older`, most recently used first. */
static uint32_t merge(struct cache_index *index, uint32_t a, uint32_t b)
{
    uint32_t first = 0;
    uint32_t *link = &first;

    while (a != 0 && b != 0) {
        bool takes_a = cache_index_at(index, a)->used_at >= cache_index_at(index, b)->used_at;
        uint32_t *from = takes_a ? &a : &b;

        *link = *from;
        link = &cache_index_at(index, *from)->older;
        *from = *link;
    }
    *link = a != 0 ? a : b;
    return first;
}

/* Restores the order of use from the seconds of last use. */
static void sort_order(struct cache_index *index)
{
    uint32_t lists[MERGE_LISTS] = {0};

    for (uint32_t number = 1; number <= index->used_numbers; number++) {
        struct cache_entry *entry = cache_index_at(index, number);

        if ((entry->flags & ENTRY_USED) == 0) {
            continue;
        }
        entry->older = 0;
        uint32_t list = number;
        unsigned level = 0;
        for (; level < MERGE_LISTS - 1 && lists[level] != 0; level++) {
            list = merge(index, lists[level], list);
            lists[level] = 0;
        }
        lists[level] = list;
    }
    uint32_t all = 0;
    for (unsigned level = 0; level < MERGE_LISTS; level++) {
        all = merge(index, lists[level], all);
    }
    index->newest = all;
    index->oldest = 0;
    for (struct cache_entry *entry = entry_or_none(index, all); entry != NULL;
         entry = entry_or_none(index, entry->older)) {
        entry->newer = index->oldest;
        index->oldest = entry->number;
    }
}

/* Counts a change, with the lock held, so no other process writes it. */
static void count_change(struct cache_index *index)
{
    uint64_t changes = atomic_load_explicit(&index->changes, memory_order_relaxed);

    atomic_store_explicit(&index->changes, changes + 1, memory_order_relaxed);
}

/* Rebuilds buckets, order and sums; only the entries and their flags are trusted. */
static void repair(struct cache_index *index)
{
    memset(index->buckets, 0, ((size_t) index->bucket_mask + 1) * sizeof(index->buckets[0]));
    index->free_first = 0;
    index->count = index->files = index->variants = 0;
    index->size = 0;
    for (uint32_t number = 1; number <= index->used_numbers; number++) {
        struct cache_entry *entry = cache_index_at(index, number);
        uint32_t *chain = &index->free_first;

        entry->number = number;
        if ((entry->flags & ENTRY_USED) != 0) {
            chain = cache_index_bucket_of(index, entry->hash);
            index->count++;
            index->files += entry->size != 0;
            index->variants += (entry->flags & ENTRY_VARIANT) != 0;
            index->size += entry->size;
        } else {
            memset(entry->hash, 0, sizeof(entry->hash));
            atomic_store_explicit(&entry->version, 0, memory_order_relaxed);
        }
        entry->chain = *chain;
        *chain = number;
    }
    sort_order(index);
    count_change(index);
}

void cache_index_take(struct cache_index *index)
{
    CHECK_MAGIC(index, CACHE_INDEX_MAGIC);
    if (shm_lock_take(&index->lock)) {
        repair(index);
        log_alert(
            log_main, 0,
            "a process died while it changed the index of cache \"%.*s\"; the index was repaired",
            (int) index->path_length, index->path);
    }
}

void cache_index_release(struct cache_index *index)
{
    shm_lock_release(&index->lock);
}

/* ---- entries ---- */

struct cache_entry *cache_index_find(struct cache_index *index, const uint8_t *hash)
{
    struct cache_entry *entry = entry_or_none(index, *cache_index_bucket_of(index, hash));

    while (entry != NULL && memcmp(entry->hash, hash, CACHE_KEY_SIZE) != 0) {
        entry = entry_or_none(index, entry->chain);
    }
    return entry;
}

struct cache_entry *cache_index_again(struct cache_index *index, struct cache_entry *entry,
                                      const uint8_t *hash)
{
    if (entry != NULL && (entry->flags & ENTRY_USED) != 0 &&
        memcmp(entry->hash, hash, CACHE_KEY_SIZE) == 0) {
        return entry;
    }
    return cache_index_find(index, hash);
}

/* A free entry, or NULL if there is no memory for another one. */
static struct cache_entry *take_free(struct cache_index *index)
{
    if (index->free_first != 0) {
        struct cache_entry *entry = cache_index_at(index, index->free_first);

        index->free_first = entry->chain;
        return entry;
    }
    if (index->used_numbers == index->segment_count << index->segment_shift) {
        struct cache_entry *segment =
            index->segment_count == index->segment_most
                ? NULL
                : slab_alloc(index->slab, sizeof(struct cache_entry) << index->segment_shift);
        if (segment == NULL) {
            index->capacity = index->used_numbers;
            return NULL;
        }
        index->segments[index->segment_count] = segment;
        index->segment_count++;
    }
    uint32_t number = index->used_numbers + 1;
    struct cache_entry *entry = cache_index_at(index, number);
    entry->number = number;
    index->used_numbers = number;
    return entry;
}

/* The entry to evict: the least recently used, but preferably one without a claim. */
static struct cache_entry *oldest_idle(struct cache_index *index)
{
    struct cache_entry *entry = entry_or_none(index, index->oldest);

    for (int i = 0; i < EVICT_SEARCH_MOST && entry != NULL; i++) {
        if (!cache_entry_is_claimed(entry, clock_now.now_ms)) {
            return entry;
        }
        entry = entry_or_none(index, entry->newer);
    }
    return entry_or_none(index, index->oldest);
}

struct cache_entry *cache_index_add(struct cache_index *index, const uint8_t *hash, uint64_t family,
                                    bool is_variant, struct cache_evicted *evicted)
{
    struct cache_entry *entry = take_free(index);

    evicted->has_file = false;
    if (entry == NULL) {
        struct cache_entry *victim = oldest_idle(index);

        if (victim == NULL) {
            return NULL;
        }
        evicted->has_file = victim->size != 0;
        memcpy(evicted->hash, victim->hash, CACHE_KEY_SIZE);
        cache_index_drop(index, victim);
        entry = take_free(index);
    }
    memcpy(entry->hash, hash, CACHE_KEY_SIZE);
    entry->family = family;
    entry->purged = entry->claim = entry->claim_until_ms = entry->size = 0;
    atomic_store_explicit(&entry->version, 0, memory_order_relaxed);
    entry->claim_pid = 0;
    entry->uses = 0;
    entry->used_at = (uint32_t) clock_now.seconds;
    entry->flags = ENTRY_USED | (is_variant ? ENTRY_VARIANT : 0);
    uint32_t *bucket = cache_index_bucket_of(index, hash);
    entry->chain = *bucket;
    *bucket = entry->number;
    order_push(index, entry);
    index->count++;
    index->variants += is_variant;
    if (++index->added > index->count / EPOCH_SHARE + EPOCH_LEAST) {
        index->added = 0;
        uint32_t epoch = atomic_load_explicit(&index->epoch, memory_order_relaxed);
        atomic_store_explicit(&index->epoch, epoch + 1, memory_order_relaxed);
    }
    return entry;
}

void cache_index_touch(struct cache_index *index, struct cache_entry *entry, time_t now)
{
    entry->used_at = (uint32_t) now;
    if (index->newest != entry->number) {
        order_remove(index, entry);
        order_push(index, entry);
    }
}

void cache_index_age(struct cache_index *index, struct cache_entry *entry, uint32_t used_at)
{
    entry->used_at = used_at;
    order_remove(index, entry);
    order_push_oldest(index, entry);
}

void cache_index_drop(struct cache_index *index, struct cache_entry *entry)
{
    uint32_t *link = cache_index_bucket_of(index, entry->hash);

    while (*link != entry->number) {
        link = &cache_index_at(index, *link)->chain;
    }
    *link = entry->chain;
    order_remove(index, entry);
    index->count--;
    index->files -= entry->size != 0;
    index->variants -= (entry->flags & ENTRY_VARIANT) != 0;
    index->size -= entry->size;
    count_change(index);
    entry->flags = 0;
    entry->size = entry->claim = 0;
    memset(entry->hash, 0, sizeof(entry->hash));
    atomic_store_explicit(&entry->version, 0, memory_order_release);
    entry->chain = index->free_first;
    index->free_first = entry->number;
}

void cache_index_store(struct cache_index *index, struct cache_entry *entry, uint64_t version,
                       uint64_t size)
{
    index->files += (size != 0) - (entry->size != 0);
    index->size += size - entry->size;
    count_change(index);
    entry->size = size;
    entry->flags &= (uint16_t) ~(ENTRY_RESTORED | ENTRY_FAILED | ENTRY_TIMED_OUT);
    atomic_store_explicit(&entry->version, version, memory_order_release);
    if (index->version < version) {
        index->version = version;
    }
}

uint64_t cache_index_version(struct cache_index *index)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t version = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
    index->version = version > index->version ? version : index->version + 1;
    return index->version;
}

bool cache_index_was_purged(struct cache_index *index, const uint8_t *main_hash, uint64_t version)
{
    const struct cache_entry *entry = cache_index_find(index, main_hash);

    return entry != NULL && entry->purged > version;
}

bool cache_index_is_purged(struct cache_index *index, struct str key, uint64_t version)
{
    uint8_t digest[CACHE_KEY_SIZE];
    bool is_purged = false;

    if (atomic_load_explicit(&index->rules_version, memory_order_acquire) <= version) {
        return false;
    }
    struct cache_rule *rules = malloc(sizeof(index->rules));
    if (rules == NULL) {
        return true;
    }
    cache_index_take(index);
    memcpy(rules, index->rules, sizeof(index->rules));
    cache_index_release(index);
    for (int i = 0; i < CACHE_RULES && !is_purged; i++) {
        if (rules[i].version > version && rules[i].length <= key.len) {
            md5_of(str_head(key, rules[i].length), digest);
            is_purged = memcmp(digest, rules[i].digest, sizeof(digest)) == 0;
        }
    }
    free(rules);
    return is_purged;
}

uint64_t cache_index_round(const struct cache_index *index, uint64_t length)
{
    return (length + index->block_size - 1) / index->block_size * index->block_size;
}

void cache_variant_hash(const uint8_t *main_hash, const uint8_t *variant, uint8_t *out)
{
    uint8_t both[2 * CACHE_KEY_SIZE];

    memcpy(both, main_hash, CACHE_KEY_SIZE);
    memcpy(both + CACHE_KEY_SIZE, variant, CACHE_KEY_SIZE);
    md5_of((struct str){(const char *) both, sizeof(both)}, out);
}
