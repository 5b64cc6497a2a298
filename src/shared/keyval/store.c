/* Keys and values in a zone of shared memory. */
#include "shared/keyval/store.h"

#include <arpa/inet.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/addr/addr.h"

enum {
    BYTES_PER_HEAD = 256,  /* bytes of the zone for each head of the hash */
    BYTES_PER_LENGTH = 64, /* bytes of the zone for each counter in `lengths` of prefixes */
    V6_LENGTHS = 33,       /* index of the first length of IPv6 networks, after 0 to 32 of IPv4 */
    IP_LENGTHS = V6_LENGTHS + 129,
    INDEX_MAX = 18,        /* bytes of the index of a network: family, bits, address */
    VISITED_MOST = 256,    /* entries of one visit, plus the remaining ones of the same head */
    VISITED_BYTES = 65536, /* bytes that one visit returns */
    HEADS_MOST = 8192,     /* heads that one visit examines, many of which may be empty */
    HEADS_PER_CHANGE = 32  /* heads in which each change searches for expired entries */
};

/* One pair. Once it is in a list, only expires_ms changes. */
struct entry {
    struct entry *next;  /* in the list of the same head */
    uint64_t expires_ms; /* since the epoch; KEYVAL_NEVER */
    uint32_t value_size;
    uint32_t era;        /* era of the store when it was made */
    uint16_t length;     /* that is counted in `lengths` */
    uint16_t index_size; /* bytes of the index; 0: the index is the key */
    uint16_t key_size;
    char bytes[]; /* index, key, value */
};

struct keyval_store {
    struct shm_lock lock;      /* protects everything below, except what file_lock protects */
    struct shm_lock file_lock; /* protects `written`, and the file */
    struct keyval_written written;
    uint64_t version;
    uint64_t count; /* pairs */
    struct slab *slab;
    uint64_t secret[2]; /* for the hash */
    uint32_t type;      /* enum keyval_type */
    uint32_t era;       /* entries of earlier eras were cleared: they count as removed */
    uint32_t heads_mask;
    uint32_t hand; /* the next head in which a change searches for expired entries */
    struct entry **heads;
    /* Number of pairs by length of the key, or of the network's prefix; the last one counts all
     * longer keys as well. */
    uint32_t *lengths; /* NULL for KEYVAL_STRING */
    uint32_t lengths_count;
};

/* The bytes by which a key is found. */
struct index {
    struct str bytes;
    uint32_t length; /* see struct entry */
    char buffer[INDEX_MAX];
};

uint64_t keyval_now(void)
{
    return (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;
}

/* ---- creation ---- */

/* Number of counters in `lengths`; they may use only a part of the zone. */
static uint32_t lengths_of(const struct zone *zone, enum keyval_type type)
{
    size_t most = zone->size / BYTES_PER_LENGTH;

    switch (type) {
    case KEYVAL_IP:
        return IP_LENGTHS;
    case KEYVAL_PREFIX:
        return most < KEYVAL_KEY_MAX + 1 ? (uint32_t) most : KEYVAL_KEY_MAX + 1;
    default:
        return 0;
    }
}

struct keyval_store *keyval_store_of(struct zone *zone, enum keyval_type type)
{
    struct keyval_store *store = zone->root;
    size_t heads = 1;

    if (store != NULL) {
        return store;
    }
    store = slab_alloc(zone->slab, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    while (heads * 2 * BYTES_PER_HEAD <= zone->size) {
        heads *= 2;
    }
    store->slab = zone->slab;
    store->type = type;
    store->heads_mask = (uint32_t) heads - 1;
    store->heads = slab_alloc(zone->slab, heads * sizeof(*store->heads));
    store->lengths_count = lengths_of(zone, type);
    if (store->lengths_count != 0) {
        store->lengths = slab_alloc(zone->slab, store->lengths_count * sizeof(*store->lengths));
    }
    if (store->heads == NULL || (type != KEYVAL_STRING && store->lengths == NULL)) {
        return NULL; /* the zone is unusable, so nothing is freed */
    }
    random_bytes(store->secret, sizeof(store->secret));
    shm_lock_init(&store->lock);
    shm_lock_init(&store->file_lock);
    zone->root = store;
    return store;
}

enum keyval_type keyval_store_type(const struct keyval_store *store)
{
    return (enum keyval_type) store->type;
}

uint64_t keyval_count(const struct keyval_store *store)
{
    return store->count;
}

uint64_t keyval_version(const struct keyval_store *store)
{
    return store->version;
}

struct shm_lock *keyval_file_lock(struct keyval_store *store)
{
    return &store->file_lock;
}

struct keyval_written *keyval_file_written(struct keyval_store *store)
{
    return &store->written;
}

/* ---- the index of a key ---- */

static unsigned bits_of(const struct cidr *cidr, unsigned size)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < size; i++) {
        bits += (unsigned) __builtin_popcount(cidr->mask[i]);
    }
    return bits;
}

/* The index of a network: the first `bits` of an address of `size` bytes. */
static void index_network(struct index *index, const unsigned char *address, unsigned size,
                          unsigned bits)
{
    index->buffer[0] = (char) size;
    index->buffer[1] = (char) bits;
    memset(index->buffer + 2, 0, 16);
    memcpy(index->buffer + 2, address, bits / 8);
    if (bits % 8 != 0) {
        index->buffer[2 + bits / 8] = (char) (address[bits / 8] & (0xff00 >> bits % 8));
    }
    index->bytes = (struct str){index->buffer, 2 + size};
    index->length = size == 4 ? bits : V6_LENGTHS + bits;
}

/* False: it cannot be a key of this store. */
static bool index_key(const struct keyval_store *store, struct str key, struct index *index)
{
    struct cidr cidr;

    if (key.len == 0 || key.len > KEYVAL_KEY_MAX) {
        return false;
    }
    index->bytes = key;
    index->length = (uint32_t) key.len;
    if (store->type != KEYVAL_IP) {
        return true;
    }
    if (!cidr_parse(key, &cidr) || (cidr.family != AF_INET && cidr.family != AF_INET6)) {
        return false;
    }
    unsigned size = cidr.family == AF_INET ? 4 : 16;
    index_network(index, cidr.address, size, bits_of(&cidr, size));
    return true;
}

struct str keyval_canonical(const struct keyval_store *store, struct str key, struct arena *arena)
{
    struct index index;
    char text[INET6_ADDRSTRLEN];

    if (!index_key(store, key, &index)) {
        return STR_NONE;
    }
    if (store->type != KEYVAL_IP) {
        return key;
    }
    inet_ntop(index.buffer[0] == 4 ? AF_INET : AF_INET6, index.buffer + 2, text, sizeof(text));
    return arena_printf(arena, "%s/%u", text, (unsigned) (unsigned char) index.buffer[1]);
}

static struct str index_of(const struct entry *entry)
{
    return (struct str){entry->bytes, entry->index_size == 0 ? entry->key_size : entry->index_size};
}

static void pair_of(const struct entry *entry, struct keyval_pair *pair)
{
    pair->key = (struct str){entry->bytes + entry->index_size, entry->key_size};
    pair->value = (struct str){pair->key.data + pair->key.len, entry->value_size};
    pair->expires_ms = entry->expires_ms;
}

static bool is_expired(const struct keyval_store *store, const struct entry *entry, uint64_t now_ms)
{
    return entry->era != store->era ||
           (entry->expires_ms != KEYVAL_NEVER && entry->expires_ms <= now_ms);
}

/* ---- with the lock held ---- */

/* The pointer to the entry with this index, or to the end of its list. */
static struct entry **keyval_store_link_of(struct keyval_store *store, struct str index)
{
    struct entry **at = &store->heads[siphash_1_3(index, store->secret) & store->heads_mask];

    while (*at != NULL && !str_equal(index_of(*at), index)) {
        at = &(*at)->next;
    }
    return at;
}

static uint32_t *length_counter(struct keyval_store *store, size_t length)
{
    return &store->lengths[length < store->lengths_count ? length : store->lengths_count - 1];
}

static void count_entry(struct keyval_store *store, const struct entry *entry, int change)
{
    if (entry->era != store->era) {
        return; /* it was subtracted when the store was cleared */
    }
    store->count += (uint64_t) (int64_t) change;
    if (store->lengths != NULL) {
        *length_counter(store, entry->length) += (uint32_t) change;
    }
}

static void count_nothing(struct keyval_store *store)
{
    store->count = 0;
    if (store->lengths != NULL) {
        memset(store->lengths, 0, store->lengths_count * sizeof(*store->lengths));
    }
}

/* Removes the entry from the list with a single store, in case the process dies. */
static void drop(struct keyval_store *store, struct entry **link)
{
    struct entry *entry = *link;

    *link = entry->next;
    count_entry(store, entry, -1);
    slab_free(store->slab, entry);
}

/* Removes the expired entries of a head. */
static void sweep_head(struct keyval_store *store, uint32_t head, uint64_t now_ms)
{
    struct entry **at = &store->heads[head];

    while (*at != NULL) {
        if (is_expired(store, *at, now_ms)) {
            drop(store, at);
        } else {
            at = &(*at)->next;
        }
    }
}

/* True: a process died while it held the lock, and the counts were repaired. */
static bool lock_quietly(struct keyval_store *store)
{
    if (!shm_lock_take(&store->lock)) {
        return false;
    }
    count_nothing(store);
    for (uint32_t i = 0; i <= store->heads_mask; i++) {
        for (const struct entry *entry = store->heads[i]; entry != NULL; entry = entry->next) {
            count_entry(store, entry, 1);
        }
    }
    return true;
}

static void lock(struct keyval_store *store)
{
    if (lock_quietly(store)) {
        log_alert(
            log_main, 0,
            "a process died while it changed a zone of keys and values; the zone was repaired");
    }
}

/* The entry with this index that has not expired, or NULL. */
static struct entry *find_live(struct keyval_store *store, struct str index)
{
    struct entry **link = keyval_store_link_of(store, index);

    if (*link != NULL && is_expired(store, *link, keyval_now())) {
        drop(store, link);
        return NULL;
    }
    return *link;
}

/* ---- lookup ---- */

static struct entry *find_address(struct keyval_store *store, struct str text)
{
    struct index index;
    struct addr addr;

    if (!addr_parse_ip(text, &addr)) {
        return NULL;
    }
    bool is_v4 = addr.any.sa_family == AF_INET;
    unsigned size = is_v4 ? 4 : 16, first = is_v4 ? 0 : V6_LENGTHS;
    const unsigned char *bytes = is_v4 ? (const unsigned char *) &addr.v4.sin_addr
                                       : (const unsigned char *) &addr.v6.sin6_addr;
    for (unsigned bits = 8 * size + 1; bits-- > 0;) {
        if (store->lengths[first + bits] == 0) {
            continue;
        }
        index_network(&index, bytes, size, bits);
        struct entry *found = find_live(store, index.bytes);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

static struct entry *find_prefix(struct keyval_store *store, struct str text)
{
    for (size_t len = str_head(text, KEYVAL_KEY_MAX).len; len > 0; len--) {
        struct entry *found =
            *length_counter(store, len) == 0 ? NULL : find_live(store, str_head(text, len));

        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

bool keyval_find(struct keyval_store *store, struct str text, struct arena *arena, struct str *out)
{
    struct keyval_pair pair;

    lock(store);
    const struct entry *entry = store->type == KEYVAL_IP       ? find_address(store, text)
                                : store->type == KEYVAL_PREFIX ? find_prefix(store, text)
                                                               : find_live(store, text);
    if (entry != NULL) {
        pair_of(entry, &pair);
        *out = arena_dup(arena, pair.value);
    }
    shm_lock_release(&store->lock);
    return entry != NULL;
}

bool keyval_get(struct keyval_store *store, struct str key, struct arena *arena,
                struct keyval_pair *out)
{
    struct index index;

    if (!index_key(store, key, &index)) {
        return false;
    }
    lock(store);
    const struct entry *entry = find_live(store, index.bytes);
    if (entry != NULL) {
        pair_of(entry, out);
        out->key = arena_dup(arena, out->key);
        out->value = arena_dup(arena, out->value);
    }
    shm_lock_release(&store->lock);
    return entry != NULL;
}

bool keyval_visit(struct keyval_store *store, uint32_t *cursor,
                  void (*visit)(const struct keyval_pair *pair, void *arg), void *arg)
{
    uint64_t now_ms = keyval_now();
    struct keyval_pair pair;
    size_t count = 0, bytes = 0;
    uint32_t most =
        store->heads_mask - *cursor < HEADS_MOST ? store->heads_mask + 1 : *cursor + HEADS_MOST;

    lock_quietly(store);
    while (*cursor < most && count < VISITED_MOST && bytes < VISITED_BYTES) {
        sweep_head(store, *cursor, now_ms);
        for (const struct entry *entry = store->heads[(*cursor)++]; entry != NULL;
             entry = entry->next) {
            pair_of(entry, &pair);
            if (visit != NULL) {
                visit(&pair, arg);
            }
            count++;
            bytes += pair.key.len + pair.value.len;
        }
    }
    shm_lock_release(&store->lock);
    return *cursor <= store->heads_mask;
}

/* ---- changes ---- */

/* A new entry that is in no list; NULL: no memory. */
static struct entry *entry_new(struct keyval_store *store, const struct keyval_pair *pair)
{
    struct index index;

    index_key(store, pair->key, &index);
    size_t index_size = store->type == KEYVAL_IP ? index.bytes.len : 0;
    size_t size = offsetof(struct entry, bytes) + index_size + pair->key.len + pair->value.len;
    struct entry *entry = pair->value.len > UINT32_MAX ? NULL : slab_alloc(store->slab, size);
    if (entry == NULL) {
        return NULL;
    }
    entry->expires_ms = pair->expires_ms;
    entry->length = (uint16_t) index.length;
    entry->index_size = (uint16_t) index_size;
    entry->key_size = (uint16_t) pair->key.len;
    entry->value_size = (uint32_t) pair->value.len;
    char *at = str_put(entry->bytes, str_head(index.bytes, index_size));
    str_put(str_put(at, pair->key), pair->value);
    return entry;
}

/* With a single store, replaces the entry with the same index, or appends to the list. */
static void keyval_store_put(struct keyval_store *store, struct entry *entry)
{
    struct entry **link = keyval_store_link_of(store, index_of(entry)), *former = *link;

    entry->next = former == NULL ? NULL : former->next;
    entry->era = store->era;
    *link = entry;
    count_entry(store, entry, 1);
    if (former != NULL) {
        count_entry(store, former, -1);
        slab_free(store->slab, former);
    }
}

static void apply(struct keyval_store *store, const struct keyval_change *change,
                  struct entry *made)
{
    struct index index;

    if (made != NULL) {
        keyval_store_put(store, made);
        return;
    }
    index_key(store, change->pair.key, &index);
    struct entry **link = keyval_store_link_of(store, index.bytes);
    if (*link == NULL) {
        return; /* another one of these changes has removed it */
    }
    if (change->is_deleted) {
        drop(store, link);
    } else {
        (*link)->expires_ms = change->pair.expires_ms;
    }
}

/* Can all changes be made? */
static enum keyval_result keyval_store_check(struct keyval_store *store, const struct vec *changes,
                                             bool is_new)
{
    vec_each(const struct keyval_change, change, changes) {
        struct index index;

        if (!index_key(store, change->pair.key, &index)) {
            return KEYVAL_BAD_KEY;
        }
        bool exists = find_live(store, index.bytes) != NULL;
        if (exists == is_new) {
            return exists ? KEYVAL_EXISTS : KEYVAL_ABSENT;
        }
    }
    return KEYVAL_DONE;
}

static void free_entries(struct keyval_store *store, struct entry **entries, size_t count)
{
    while (count-- > 0) {
        if (entries[count] != NULL) {
            slab_free(store->slab, entries[count]);
        }
    }
}

/* Makes the new entries that changes need, in the same order; false: there is not enough memory for
 * all, and none is made. */
static bool make_entries(struct keyval_store *store, const struct vec *changes,
                         struct entry **entries)
{
    size_t made = 0;

    vec_each(const struct keyval_change, change, changes) {
        bool needs_one = !change->is_deleted && !change->keeps_value;

        entries[made] = needs_one ? entry_new(store, &change->pair) : NULL;
        if (needs_one && entries[made] == NULL) {
            free_entries(store, entries, made);
            return false;
        }
        made++;
    }
    return true;
}

/* Removes expired entries of some heads, so that they do not fill the zone. */
static void sweep_some(struct keyval_store *store)
{
    uint64_t now_ms = keyval_now();

    for (unsigned i = 0; i < HEADS_PER_CHANGE; i++) {
        sweep_head(store, store->hand, now_ms);
        store->hand = (store->hand + 1) & store->heads_mask;
    }
}

/* The entries are made without the lock, so the changes are checked again afterwards. */
static enum keyval_result change_all(struct keyval_store *store, const struct vec *changes,
                                     struct entry **entries, bool is_new)
{
    lock(store);
    enum keyval_result result = keyval_store_check(store, changes, is_new);
    shm_lock_release(&store->lock);
    if (result != KEYVAL_DONE) {
        return result;
    }
    if (!make_entries(store, changes, entries)) {
        return KEYVAL_FULL;
    }
    lock(store);
    result = keyval_store_check(store, changes, is_new);
    if (result == KEYVAL_DONE) {
        for (size_t i = 0; i < changes->count; i++) {
            apply(store, vec_at(changes, struct keyval_change, i), entries[i]);
        }
        store->version++;
        sweep_some(store);
    }
    shm_lock_release(&store->lock);
    if (result != KEYVAL_DONE) {
        free_entries(store, entries, changes->count);
    }
    return result;
}

static enum keyval_result change_any(struct keyval_store *store, const struct vec *changes,
                                     bool is_new)
{
    struct arena arena;

    arena_init(&arena);
    struct entry **entries = arena_array(&arena, changes->count, sizeof(struct entry *));
    enum keyval_result result = change_all(store, changes, entries, is_new);
    arena_free(&arena);
    return result;
}

enum keyval_result keyval_make(struct keyval_store *store, const struct vec *changes)
{
    return change_any(store, changes, true);
}

enum keyval_result keyval_change(struct keyval_store *store, const struct vec *changes)
{
    return change_any(store, changes, false);
}

void keyval_clear(struct keyval_store *store)
{
    lock(store);
    store->era++;
    count_nothing(store);
    store->version++;
    shm_lock_release(&store->lock);
}
