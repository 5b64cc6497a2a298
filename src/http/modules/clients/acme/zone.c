/* The zone: certificates and accounts for all processes, and answers to challenges. */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/shm.h"
#include "http/modules/clients/acme/acme.h"
/* After this time the process or node that opened it must have died. */

#define CHALLENGE_TIME_S 3600

/* A pair in one allocation; the strings follow. It is never changed, only replaced. */
struct packed_pair {
    uint32_t key_size, value_size;
};

struct acme_entry {
    struct acme_entry *next;
    struct packed_pair *pair; /* or NULL */
    struct acme_facts facts;
    struct order_counts counts;
    uint32_t generation; /* the newest generation that uses it */
    uint32_t name_size;
    /* the name follows */
};

struct open_challenge {
    struct open_challenge *next;
    struct packed_pair *pair;
    int64_t ends_s;
    uint32_t type; /* an enum acme_challenge_type */
    uint32_t name_size;
    /* the name follows */
};

/* Lists are changed by one store, so that they stay consistent if a process dies. */
struct acme_zone {
    struct shm_lock lock;
    struct acme_entry *entries;
    struct open_challenge *challenges;
    _Atomic uint32_t challenge_count;
};

static struct acme_zone *zone_of(const struct zone *zone)
{
    return zone->root;
}

bool acme_zone_open(struct zone *zone)
{
    if (zone->root == NULL) {
        struct acme_zone *root = slab_alloc(zone->slab, sizeof(*root));

        if (root == NULL) {
            return false;
        }
        shm_lock_init(&root->lock);
        zone->root = root;
    }
    return true;
}

/* ---- pairs ---- */

static struct packed_pair *pack(struct zone *zone, const struct acme_pair *pair)
{
    struct packed_pair *packed =
        slab_alloc(zone->slab, sizeof(*packed) + pair->key.len + pair->value.len);

    if (packed != NULL) {
        packed->key_size = (uint32_t) pair->key.len;
        packed->value_size = (uint32_t) pair->value.len;
        str_put(str_put((char *) (packed + 1), pair->key), pair->value);
    }
    return packed;
}

static void unpack(const struct packed_pair *packed, struct arena *arena, struct acme_pair *out)
{
    const char *at = (const char *) (packed + 1);

    out->key = arena_dup(arena, (struct str){at, packed->key_size});
    out->value = arena_dup(arena, (struct str){at + packed->key_size, packed->value_size});
}

/* ---- entries ---- */

static struct str entry_name(const struct acme_entry *entry)
{
    return (struct str){(const char *) (entry + 1), entry->name_size};
}

static struct acme_entry *find(struct acme_zone *root, struct str name)
{
    struct acme_entry *entry = root->entries;

    while (entry != NULL && !str_equal(entry_name(entry), name)) {
        entry = entry->next;
    }
    return entry;
}

static struct acme_entry *make(struct zone *zone, struct str name)
{
    struct acme_entry *entry = slab_alloc(zone->slab, sizeof(*entry) + name.len);

    if (entry != NULL) {
        entry->name_size = (uint32_t) name.len;
        str_put((char *) (entry + 1), name);
        entry->next = zone_of(zone)->entries;
        zone_of(zone)->entries = entry;
    }
    return entry;
}

/* Frees the pairs that neither this nor the previous generation uses. Called with the lock. */
static bool drop_unused(struct zone *zone, uint32_t generation)
{
    bool has_dropped = false;

    for (struct acme_entry *entry = zone_of(zone)->entries; entry != NULL; entry = entry->next) {
        if (entry->generation + 1 < generation && entry->pair != NULL) {
            struct packed_pair *pair = entry->pair;

            entry->pair = NULL;
            entry->facts = (struct acme_facts){.failures = 0};
            slab_free(zone->slab, pair);
            has_dropped = true;
        }
    }
    return has_dropped;
}

struct acme_entry *acme_entry_of(struct zone *zone, struct str name, uint32_t generation)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    struct acme_entry *entry = find(root, name);
    if (entry == NULL) {
        entry = make(zone, name);
    }
    if (entry == NULL && drop_unused(zone, generation)) {
        entry = make(zone, name);
    }
    if (entry != NULL) {
        entry->generation = generation;
    }
    shm_lock_release(&root->lock);
    return entry;
}

bool acme_entry_get(struct zone *zone, struct acme_entry *entry, struct arena *arena,
                    struct acme_pair *out)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    bool is_there = entry->pair != NULL;
    if (is_there) {
        unpack(entry->pair, arena, out);
    }
    shm_lock_release(&root->lock);
    return is_there;
}

bool acme_entry_put(struct zone *zone, struct acme_entry *entry, const struct acme_pair *pair,
                    uint32_t generation)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    struct packed_pair *packed = pack(zone, pair);
    if (packed == NULL && drop_unused(zone, generation)) {
        packed = pack(zone, pair);
    }
    if (packed != NULL) {
        struct packed_pair *former = entry->pair;

        entry->pair = packed;
        if (former != NULL) {
            slab_free(zone->slab, former);
        }
    }
    shm_lock_release(&root->lock);
    return packed != NULL;
}

bool acme_entry_next(struct zone *zone, struct str prefix, struct acme_entry **last,
                     struct arena *arena, struct acme_pair *out)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    struct acme_entry *entry = *last == NULL ? root->entries : (*last)->next;
    while (entry != NULL &&
           (entry->pair == NULL || entry->facts.is_self_signed || entry->facts.not_after == 0 ||
            !str_starts(entry_name(entry), prefix))) {
        entry = entry->next;
    }
    if (entry != NULL) {
        unpack(entry->pair, arena, out);
        *last = entry;
    }
    shm_lock_release(&root->lock);
    return entry != NULL;
}

struct order_counts *acme_entry_counts(struct acme_entry *entry)
{
    return &entry->counts;
}

struct acme_facts acme_facts_get(struct zone *zone, struct acme_entry *entry)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    struct acme_facts facts = entry->facts;
    shm_lock_release(&root->lock);
    return facts;
}

void acme_facts_put(struct zone *zone, struct acme_entry *entry, const struct acme_facts *facts)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    entry->facts = *facts;
    shm_lock_release(&root->lock);
}

/* ---- challenges ---- */

static bool is_challenge(const struct open_challenge *challenge, enum acme_challenge_type type,
                         struct str name)
{
    return challenge->type == (uint32_t) type &&
           str_equal((struct str){(const char *) (challenge + 1), challenge->name_size}, name);
}

/* Removes this challenge, and those that have expired. */
static void remove_locked(struct zone *zone, enum acme_challenge_type type, struct str name)
{
    struct acme_zone *root = zone_of(zone);
    struct open_challenge **at = &root->challenges;

    while (*at != NULL) {
        struct open_challenge *one = *at;

        if (!is_challenge(one, type, name) && one->ends_s > (int64_t) clock_now.seconds) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        root->challenge_count--;
        slab_free(zone->slab, one->pair);
        slab_free(zone->slab, one);
    }
}

static bool put_locked(struct zone *zone, enum acme_challenge_type type, struct str name,
                       const struct acme_pair *pair)
{
    struct acme_zone *root = zone_of(zone);

    if (root->challenge_count >= ACME_CHALLENGES_MAX) {
        return false;
    }
    struct open_challenge *challenge = slab_alloc(zone->slab, sizeof(*challenge) + name.len);
    struct packed_pair *packed = challenge == NULL ? NULL : pack(zone, pair);
    if (packed == NULL) {
        if (challenge != NULL) {
            slab_free(zone->slab, challenge);
        }
        return false;
    }
    challenge->type = type;
    challenge->ends_s = (int64_t) clock_now.seconds + CHALLENGE_TIME_S;
    challenge->pair = packed;
    challenge->name_size = (uint32_t) name.len;
    str_put((char *) (challenge + 1), name);
    challenge->next = root->challenges;
    root->challenges = challenge;
    root->challenge_count++;
    return true;
}

bool acme_challenge_put(struct zone *zone, enum acme_challenge_type type, struct str name,
                        const struct acme_pair *pair)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    remove_locked(zone, type, name);
    bool is_good = put_locked(zone, type, name, pair);
    shm_lock_release(&root->lock);
    return is_good;
}

void acme_challenge_remove(struct zone *zone, enum acme_challenge_type type, struct str name)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    remove_locked(zone, type, name);
    shm_lock_release(&root->lock);
}

bool acme_challenge_find(struct zone *zone, enum acme_challenge_type type, struct str name,
                         struct arena *arena, struct acme_pair *out)
{
    struct acme_zone *root = zone_of(zone);

    if (root->challenge_count == 0) {
        return false;
    }
    shm_lock_take(&root->lock);
    const struct open_challenge *challenge = root->challenges;
    while (challenge != NULL && !is_challenge(challenge, type, name)) {
        challenge = challenge->next;
    }
    if (challenge != NULL) {
        unpack(challenge->pair, arena, out);
    }
    shm_lock_release(&root->lock);
    return challenge != NULL;
}

void acme_challenge_list(struct zone *zone, struct arena *arena, struct vec *out)
{
    struct acme_zone *root = zone_of(zone);

    shm_lock_take(&root->lock);
    for (const struct open_challenge *one = root->challenges; one != NULL; one = one->next) {
        *vec_add(out, arena, struct acme_open_challenge) = (struct acme_open_challenge){
            .type = (enum acme_challenge_type) one->type,
            .name = arena_dup(arena, (struct str){(const char *) (one + 1), one->name_size}),
        };
    }
    shm_lock_release(&root->lock);
}
