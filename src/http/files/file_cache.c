/* A cache of files in a worker: a table by path, bounded in number and bytes, with LRU
 * replacement. */
#include "http/files/file_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fatal.h"

#define FIRST_BUCKETS 256u

struct file_cache {
    struct file **buckets; /* malloc'ed */
    size_t bucket_count;   /* a power of two; doubled when there are more files than buckets */
    uint64_t count;        /* files */
    uint64_t bytes;        /* of contents and structs */
    struct file_cache_limits limits;
    struct list lru; /* struct file.lru_node, most recently used first */
};

static struct file **new_buckets(size_t count)
{
    struct file **buckets = calloc(count, sizeof(struct file *));

    if (buckets == NULL) {
        fatal_no_memory(count * sizeof(struct file *));
    }
    return buckets;
}

struct file_cache *file_cache_new(const struct file_cache_limits *limits)
{
    struct file_cache *cache = calloc(1, sizeof(*cache));

    if (cache == NULL) {
        fatal_no_memory(sizeof(*cache));
    }
    cache->bucket_count = FIRST_BUCKETS;
    cache->buckets = new_buckets(cache->bucket_count);
    cache->limits = *limits;
    list_init(&cache->lru);
    return cache;
}

void file_cache_free(struct file_cache *cache)
{
    while (!list_is_empty(&cache->lru)) {
        file_cache_remove(container_of(cache->lru.next, struct file, lru_node));
    }
    free(cache->buckets);
    free(cache);
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128) a * b;

    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

static inline uint64_t load_word(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* A hash with a secret of this process, since with open_file_cache_errors clients choose the cached
 * names. Cheaper than keyed_hash, which is made for tables without a bound. */
uint64_t file_cache_hash(struct str path)
{
    static uint64_t secret[2];
    const char *at = path.data;
    size_t left = path.len;

    if (__builtin_expect(secret[0] == 0, 0)) {
        random_bytes(secret, sizeof(secret));
        secret[0] |= 1;
    }
    uint64_t hash = secret[0] ^ left;
    for (; left > 16; at += 16, left -= 16) {
        hash = mix(hash ^ load_word(at), secret[1] ^ load_word(at + 8));
    }
    char tail[16] = {0};
    memcpy(tail, at, left);
    return mix(hash ^ load_word(tail), secret[1] ^ load_word(tail + 8));
}

static struct file **file_cache_bucket_of(struct file_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->bucket_count - 1)];
}

struct file *file_cache_find(struct file_cache *cache, const struct file_options *options)
{
    struct file *file = *file_cache_bucket_of(cache, options->hash);

    while (file != NULL && (file->hash != options->hash || !str_equal(file->path, options->path))) {
        file = file->next;
    }
    if (file != NULL && cache->lru.next != &file->lru_node) {
        list_remove(&file->lru_node);
        list_push_front(&cache->lru, &file->lru_node);
    }
    return file;
}

static void file_cache_grow(struct file_cache *cache)
{
    size_t old_count = cache->bucket_count;
    struct file **old = cache->buckets;

    cache->bucket_count *= 2;
    cache->buckets = new_buckets(cache->bucket_count);
    for (size_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct file *file = old[i];
            struct file **bucket = file_cache_bucket_of(cache, file->hash);

            old[i] = file->next;
            file->next = *bucket;
            *bucket = file;
        }
    }
    free(old);
}

/* Memory of a cached file. */
static uint64_t weight(const struct file *file)
{
    return sizeof(*file) + file->path.len + 1 + file->contents.len;
}

void file_cache_remove(struct file *file)
{
    struct file_cache *cache = file->cache;
    struct file **at = file_cache_bucket_of(cache, file->hash);

    while (*at != file) {
        at = &(*at)->next;
    }
    *at = file->next;
    list_remove(&file->lru_node);
    cache->count--;
    cache->bytes -= weight(file);
    file->cache = NULL;
    file_release(file);
}

/* Makes space for one more file of this weight. */
static void file_cache_make_room(struct file_cache *cache, uint64_t needed)
{
    while (!list_is_empty(&cache->lru) &&
           (cache->count >= cache->limits.files || cache->bytes + needed > cache->limits.bytes)) {
        file_cache_remove(container_of(cache->lru.prev, struct file, lru_node));
    }
}

void file_cache_put(struct file_cache *cache, struct file *file, uint64_t hash)
{
    struct file_options options = {.path = file->path, .hash = hash};
    struct file *former = file_cache_find(cache, &options);

    if (former != NULL) {
        file_cache_remove(former);
    }
    file_cache_make_room(cache, weight(file));
    if (cache->count >= cache->bucket_count) {
        file_cache_grow(cache);
    }
    struct file **bucket = file_cache_bucket_of(cache, hash);
    file->hash = hash;
    file->next = *bucket;
    *bucket = file;
    file->cache = cache;
    list_push_front(&cache->lru, &file->lru_node);
    cache->count++;
    cache->bytes += weight(file);
    file->references++;
}

bool file_cache_is_empty(const struct file_cache *cache)
{
    return list_is_empty(&cache->lru);
}

void file_cache_expire(struct file_cache *cache, uint64_t now_ms, unsigned at_most)
{
    for (unsigned i = 0; i < at_most && !list_is_empty(&cache->lru); i++) {
        struct file *oldest = container_of(cache->lru.prev, struct file, lru_node);

        if (now_ms - oldest->used_ms <= cache->limits.inactive_ms) {
            return;
        }
        file_cache_remove(oldest);
    }
}
