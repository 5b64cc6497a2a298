/* Purging: a key with its variants, and all keys with a prefix. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "cache/internal.h"
#include "cache/sync.h"

enum {
    VARIANT_PORTION = 1024, /* entries examined each time the lock is held */
    WALK_FILES = 256,       /* files examined at a time by a request */
    WALK_MOST_MS = 1000,    /* after that the manager continues */
    WALKER_HEAD_START_MS =
        2000,              /* for the request that purges, before the manager also works on it */
    RULE_KEPT_MS = 600000, /* after its walk, for responses whose fetch began before the purge */
    RULES_MAGIC = 0x5e19c0de,
};

/* ---- rules ---- */

struct rules_file {
    uint32_t magic;
    uint32_t crc; /* of the rules */
    struct cache_rule rules[CACHE_RULES];
};

static void rules_name(const struct cache *cache, char name[CACHE_NAME_MAX])
{
    snprintf(name, CACHE_NAME_MAX, "%.*s/.purges", STR_ARG(cache->path->name));
}

static uint32_t rules_crc(const struct rules_file *file)
{
    return crc32_of((struct str){(const char *) file->rules, sizeof(file->rules)});
}

/* Copies the rules that are needed after a restart. Gives the version of the newest rule. */
static uint64_t copy_rules(struct cache_index *index, struct rules_file *file)
{
    memset(file, 0, sizeof(*file));
    file->magic = RULES_MAGIC;
    cache_index_take(index);
    for (int i = 0; i < CACHE_RULES; i++) {
        if (index->is_cold || index->rules[i].walked_ms == 0) {
            file->rules[i] = index->rules[i];
        }
    }
    uint64_t version = index->rules_version;
    cache_index_release(index);
    file->crc = rules_crc(file);
    return version;
}

static bool write_rules(const struct cache *cache, const struct rules_file *file)
{
    char name[CACHE_NAME_MAX];
    char temp[CACHE_NAME_MAX];

    rules_name(cache, name);
    cache_hidden_temp_name(cache, temp);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd == -1) {
        return false;
    }
    bool is_good = fs_write_all(fd, (struct str){(const char *) file, sizeof(*file)});
    close(fd);
    if (is_good && rename(temp, name) == 0) {
        return true;
    }
    int error = errno;
    unlink(temp);
    errno = error;
    return false;
}

void cache_rules_write(struct cache *cache)
{
    struct cache_index *index = cache_index_of(cache);
    struct rules_file *file = malloc(sizeof(*file));
    bool is_good = file != NULL;
    uint64_t version = 0;

    while (is_good &&
           version != atomic_load_explicit(&index->rules_version, memory_order_acquire)) {
        version = copy_rules(index, file);
        is_good = write_rules(cache, file);
    }
    if (!is_good) {
        log_error(log_main, errno, "cannot write the list of purges in \"%.*s\"",
                  STR_ARG(cache->path->name));
    }
    free(file);
}

/* Adds the rules of the file to the index. With the lock held. */
static void take_rules(struct cache_index *index, const struct rules_file *file)
{
    uint64_t newest = index->rules_version;

    for (int i = 0; i < CACHE_RULES && index->rules_version == 0; i++) {
        index->rules[i] = file->rules[i];
        index->rules[i].walked_ms = index->rules[i].made_ms = 0;
        newest = index->rules[i].version > newest ? index->rules[i].version : newest;
    }
    atomic_store_explicit(&index->rules_version, newest, memory_order_release);
    if (index->version < newest) {
        index->version = newest;
    }
}

void cache_rules_read(struct cache *cache)
{
    struct cache_index *index = cache_index_of(cache);
    struct rules_file *file = malloc(sizeof(*file));
    char name[CACHE_NAME_MAX];

    rules_name(cache, name);
    int fd = file == NULL ? -1 : open(name, CACHE_OPEN_FLAGS);
    if (fd != -1 && read(fd, file, sizeof(*file)) == (ssize_t) sizeof(*file) &&
        file->magic == RULES_MAGIC && file->crc == rules_crc(file)) {
        cache_index_take(index);
        take_rules(index, file);
        cache_index_release(index);
    }
    if (fd != -1) {
        close(fd);
    }
    free(file);
}

bool cache_rules_pending(struct cache *cache)
{
    struct cache_index *index = cache_index_of(cache);
    uint64_t now_ms = cache_now_ms();
    bool is_pending = false;

    if (atomic_load_explicit(&index->rules_version, memory_order_acquire) == 0) {
        return false;
    }
    cache_index_take(index);
    for (int i = 0; i < CACHE_RULES; i++) {
        const struct cache_rule *rule = &index->rules[i];

        is_pending = is_pending || (rule->version != 0 && rule->walked_ms == 0 &&
                                    rule->made_ms + WALKER_HEAD_START_MS <= now_ms);
    }
    cache_index_release(index);
    return is_pending;
}

/* A free position, or that of the rule that is least needed; NULL: all are needed. With the lock
 * held. */
static struct cache_rule *rule_slot(struct cache_index *index, bool is_urgent)
{
    struct cache_rule *best = NULL;
    uint64_t now_ms = cache_now_ms();

    for (int i = 0; i < CACHE_RULES; i++) {
        struct cache_rule *rule = &index->rules[i];

        if (rule->version == 0) {
            return rule;
        }
        if (rule->walked_ms != 0 && !index->is_cold &&
            (is_urgent || rule->walked_ms + RULE_KEPT_MS < now_ms) &&
            (best == NULL || rule->walked_ms < best->walked_ms)) {
            best = rule;
        }
    }
    return best;
}

/*
 * Adds a rule: responses under keys whose first `length` bytes have this MD5 are not used any more
 * if they are older. False: there are too many rules; a walk over the entries helps. While the
 * index is loaded it does not help, because files are missing in it: then, and with is_forced,
 * everything is purged instead.
 */
static bool add_rule(struct cache *cache, uint64_t length, const uint8_t digest[CACHE_KEY_SIZE],
                     bool is_forced)
{
    struct cache_index *index = cache_index_of(cache);
    uint8_t all[CACHE_KEY_SIZE];
    bool takes_all = false;

    md5_of(STR_NONE, all);
    cache_index_take(index);
    struct cache_rule *rule = rule_slot(index, false);
    if (rule == NULL) {
        rule = rule_slot(index, true);
    }
    if (rule == NULL && (index->is_cold || is_forced)) {
        takes_all = true;
        rule = &index->rules[0];
        length = 0;
        digest = all;
    }
    if (rule != NULL) {
        rule->length = length;
        rule->walked_ms = 0;
        rule->made_ms = cache_now_ms();
        memcpy(rule->digest, digest, sizeof(rule->digest));
        rule->version = cache_index_version(index);
        atomic_store_explicit(&index->rules_version, rule->version, memory_order_release);
    }
    cache_index_release(index);
    if (takes_all) {
        log_warn(log_main, 0,
                 "too many purges of cache \"%.*s\" at once: the whole cache is purged",
                 STR_ARG(cache->name));
    }
    if (rule != NULL) {
        cache_rules_write(cache);
    }
    return rule != NULL;
}

/* ---- one key ---- */

/* Removes the variants of a key. Gives how many had a file. */
static unsigned purge_variants(struct cache *cache, uint64_t family, const struct log *log)
{
    struct cache_index *index = cache_index_of(cache);
    unsigned removed = 0;
    bool is_last = false;

    for (uint32_t number = 1; !is_last;) {
        uint8_t hashes[8][CACHE_KEY_SIZE];
        unsigned count = 0;

        cache_index_take(index);
        for (unsigned i = 0; i < VARIANT_PORTION && count < 8; i++, number++) {
            if (number > index->used_numbers) {
                is_last = true;
                break;
            }
            struct cache_entry *entry = cache_index_at(index, number);
            if ((entry->flags & ENTRY_VARIANT) != 0 && entry->family == family) {
                memcpy(hashes[count++], entry->hash, CACHE_KEY_SIZE);
                removed += entry->size != 0;
                cache_index_drop(index, entry);
            }
        }
        cache_index_release(index);
        for (unsigned i = 0; i < count; i++) {
            cache_file_delete(cache, hashes[i], log);
        }
    }
    return removed;
}

bool cache_purge_hash(struct cache *cache, const uint8_t hash[CACHE_KEY_SIZE],
                      const struct log *log)
{
    struct cache_index *index = cache_index_of(cache);
    struct cache_evicted evicted = {0};
    char name[CACHE_NAME_MAX];
    bool was_there = false;

    cache_index_take(index);
    struct cache_entry *entry = cache_index_find(index, hash);
    bool is_cold = index->is_cold;
    bool may_vary = index->variants != 0 &&
                    (entry == NULL || is_cold || (entry->flags & ENTRY_HAS_VARIANTS) != 0);
    if (entry == NULL && (is_cold || cache->has_shared_fetches)) {
        entry = cache_index_add(index, hash, cache_family(hash), false, &evicted);
    }
    if (entry != NULL) {
        was_there = entry->size != 0;
        entry->purged = cache_index_version(index);
        cache_index_store(index, entry, entry->purged, 0);
    }
    cache_index_release(index);
    if (evicted.has_file) {
        cache_file_delete(cache, evicted.hash, log);
    }
    if (was_there || is_cold) {
        cache_file_name(cache, hash, name);
        if (unlink(name) == 0) {
            was_there = true;
        } else if (errno != ENOENT) {
            log_crit(log, errno, "unlink() \"%s\" failed", name);
        }
    }
    if (may_vary && purge_variants(cache, cache_family(hash), log) != 0) {
        was_there = true;
    }
    return was_there;
}

bool cache_purge(struct cache *cache, struct str key, const struct log *log)
{
    uint8_t hash[CACHE_KEY_SIZE];

    md5_of(key, hash);
    bool was_there = cache_purge_hash(cache, hash, log);
    if (cache->sync != NULL) {
        cache_sync_key(cache->sync, hash);
    }
    return was_there;
}

/* ---- walking over entries ---- */

struct cache_purger {
    struct cache *cache;
    uint32_t next;  /* number of the next entry to examine */
    uint64_t began; /* newest rule when the walk began */
    unsigned files; /* limits of a step */
    uint64_t threshold_ms;
    uint64_t found; /* entries removed in this step */
    bool is_done;
};

struct cache_purger *cache_purger_new(struct cache *cache)
{
    struct cache_purger *purger = calloc(1, sizeof(*purger));

    if (purger == NULL) {
        fatal_no_memory(sizeof(*purger));
    }
    purger->cache = cache;
    purger->next = 1;
    purger->began =
        atomic_load_explicit(&cache_index_of(cache)->rules_version, memory_order_acquire);
    return purger;
}

void cache_purger_free(struct cache_purger *purger)
{
    free(purger);
}

bool cache_file_is_purged(const struct cache *cache, int fd, const struct cache_file_header *header)
{
    struct cache_index *index = cache_index_of(cache);

    if (atomic_load_explicit(&index->rules_version, memory_order_acquire) <=
        header->content_version) {
        return false;
    }
    char *key = malloc(header->key_length + 1u);
    if (key == NULL) {
        return false;
    }
    bool is_purged = pread(fd, key, header->key_length, (off_t) header->texts_offset) ==
                         (ssize_t) header->key_length &&
                     cache_index_is_purged(index, (struct str){key, header->key_length},
                                           header->content_version);
    free(key);
    return is_purged;
}

static bool hash_is_purged(const struct cache *cache, const uint8_t *hash)
{
    struct cache_file_header header;
    char bytes[sizeof(header)];
    char name[CACHE_NAME_MAX];

    cache_file_name(cache, hash, name);
    int fd = open(name, CACHE_OPEN_FLAGS);
    if (fd == -1) {
        return false;
    }
    ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    bool is_purged =
        n > 0 &&
        cache_file_header_read((struct str){bytes, (size_t) n}, 0, &header) == CACHE_FILE_GOOD &&
        cache_file_is_purged(cache, fd, &header);
    close(fd);
    return is_purged;
}

/* An entry to examine. */
struct candidate {
    uint8_t hash[CACHE_KEY_SIZE];
    uint64_t version;
};

/* Collects entries that are older than the newest rule. */
static unsigned collect_candidates(struct cache_purger *purger, struct candidate *out,
                                   unsigned most)
{
    struct cache_index *index = cache_index_of(purger->cache);
    unsigned count = 0;

    cache_index_take(index);
    for (unsigned i = 0; i < CACHE_PORTION && count < most; i++, purger->next++) {
        if (purger->next > index->used_numbers) {
            purger->is_done = true;
            break;
        }
        const struct cache_entry *entry = cache_index_at(index, purger->next);
        if (entry->size != 0 && entry->version < purger->began) {
            memcpy(out[count].hash, entry->hash, CACHE_KEY_SIZE);
            out[count++].version = entry->version;
        }
    }
    cache_index_release(index);
    return count;
}

static void remove_purged(struct cache_purger *purger, const struct candidate *candidate)
{
    struct cache_index *index = cache_index_of(purger->cache);
    bool is_removed = false;

    if (!hash_is_purged(purger->cache, candidate->hash)) {
        return;
    }
    cache_index_take(index);
    struct cache_entry *entry = cache_index_find(index, candidate->hash);
    if (entry != NULL && entry->version == candidate->version) {
        cache_index_drop(index, entry);
        is_removed = true;
    }
    cache_index_release(index);
    if (is_removed) {
        purger->found++;
        cache_file_delete(purger->cache, candidate->hash, log_main);
    }
}

static void mark_walked(const struct cache_purger *purger)
{
    struct cache_index *index = cache_index_of(purger->cache);

    cache_index_take(index);
    for (int i = 0; i < CACHE_RULES; i++) {
        if (index->rules[i].version <= purger->began && index->rules[i].walked_ms == 0) {
            index->rules[i].walked_ms = cache_now_ms();
        }
    }
    cache_index_release(index);
    cache_rules_write(purger->cache);
}

/* Runs on a thread. */
static void walk(void *arg)
{
    struct cache_purger *purger = arg;
    struct candidate candidates[32];
    uint64_t until_ms = cache_now_ms() + purger->threshold_ms;

    for (unsigned looked_at = 0; !purger->is_done && looked_at < purger->files;) {
        unsigned count = collect_candidates(purger, candidates, 32);

        for (unsigned i = 0; i < count; i++) {
            remove_purged(purger, &candidates[i]);
        }
        looked_at += count;
        if (cache_now_ms() >= until_ms) {
            break;
        }
    }
    if (purger->is_done) {
        mark_walked(purger);
    }
}

bool cache_purger_step(struct cache_purger *purger, unsigned files, uint64_t threshold_ms,
                       uint64_t *found)
{
    purger->files = files == 0 ? 1 : files;
    purger->threshold_ms = threshold_ms;
    purger->found = 0;
    cache_work(walk, purger);
    *found += purger->found;
    return !purger->is_done;
}

void cache_purge_digest(struct cache *cache, uint64_t length, const uint8_t digest[CACHE_KEY_SIZE])
{
    uint64_t until_ms = clock_now.now_ms + WALK_MOST_MS, found = 0;

    if (add_rule(cache, length, digest, false)) {
        return; /* the manager removes files */
    }
    struct cache_purger *purger = cache_purger_new(cache);
    while (cache_purger_step(purger, WALK_FILES, WALK_MOST_MS / 10, &found) &&
           clock_now.now_ms < until_ms) {
    }
    cache_purger_free(purger);
    add_rule(cache, length, digest, true);
}

uint64_t cache_purge_prefix(struct cache *cache, struct str prefix, const struct log *log)
{
    uint64_t found = 0;
    uint64_t until_ms = clock_now.now_ms + WALK_MOST_MS;
    uint8_t digest[CACHE_KEY_SIZE];

    md5_of(prefix, digest);
    bool has_rule = add_rule(cache, prefix.len, digest, false);
    struct cache_purger *purger = cache_purger_new(cache);
    bool goes_on = true;

    while (goes_on && (clock_now.now_ms < until_ms || !has_rule)) {
        goes_on = cache_purger_step(purger, WALK_FILES, WALK_MOST_MS / 10, &found);
        if (fiber_self() != NULL && fiber_is_cancelled()) {
            break;
        }
        if (!goes_on && !has_rule) {
            /* All entries were checked against the older rules, so a position for this one is
             * free. */
            has_rule = add_rule(cache, prefix.len, digest, false);
            cache_purger_free(purger);
            purger = cache_purger_new(cache);
            goes_on = has_rule;
        }
    }
    if (!has_rule) {
        log_error(log, 0, "too many purges in cache \"%.*s\"", STR_ARG(cache->name));
    }
    cache_purger_free(purger);
    if (cache->sync != NULL) {
        cache_sync_prefix(cache->sync, prefix.len, digest);
    }
    return found;
}
