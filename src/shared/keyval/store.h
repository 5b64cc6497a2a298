/* Keys and values in a zone of shared memory, found by a string: equal to the key, an address in a
 * network, or with the key as prefix. */
#ifndef SHARED_KEYVAL_STORE_H
#define SHARED_KEYVAL_STORE_H

#include "base/arena.h"
#include "base/shm.h"

/* How a string is compared with the keys. */
enum keyval_type {
    KEYVAL_STRING, /* it is equal to the key */
    KEYVAL_IP, /* the key is an address or a network that contains it: the longest prefix is used */
    KEYVAL_PREFIX /* the key is a prefix of it: the longest one is used */
};

#define KEYVAL_KEY_MAX 4096 /* bytes of a key */
#define KEYVAL_NEVER 0      /* for expires_ms */

struct keyval_store;

/* A key and its value. */
struct keyval_pair {
    struct str key;
    struct str value;
    uint64_t expires_ms; /* since the epoch; KEYVAL_NEVER: it does not expire */
};

/* A change of one key. */
struct keyval_change {
    struct keyval_pair pair;
    bool is_deleted;  /* remove the key */
    bool keeps_value; /* change only expires_ms of an existing key */
};

enum keyval_result {
    KEYVAL_DONE,
    KEYVAL_EXISTS,  /* a key that should be created exists */
    KEYVAL_ABSENT,  /* a key that should be changed does not exist */
    KEYVAL_BAD_KEY, /* too long, empty, or not an address */
    KEYVAL_FULL /* the zone has not enough memory for all of them; after a complete keyval_visit it
                   may have */
};

/* The store that is the root of the zone, or a new, empty one. NULL: the zone is too small. */
struct keyval_store *keyval_store_of(struct zone *zone, enum keyval_type type);

enum keyval_type keyval_store_type(const struct keyval_store *store);

/* A key in the canonical form that all nodes use: a network as "ADDRESS/BITS". In the arena, or the
 * key itself; empty: not a key. */
struct str keyval_canonical(const struct keyval_store *store, struct str key, struct arena *arena);

/* The present value for a string, copied to the arena. */
bool keyval_find(struct keyval_store *store, struct str text, struct arena *arena, struct str *out);

/* Creates keys, or changes existing ones: all of the changes or, unless KEYVAL_DONE, none. */
enum keyval_result keyval_make(struct keyval_store *store, const struct vec *changes);
enum keyval_result keyval_change(struct keyval_store *store, const struct vec *changes);
/* Removes all keys at once; keyval_visit frees their memory. */
void keyval_clear(struct keyval_store *store);

/* The pair with exactly this key, copied to the arena. */
bool keyval_get(struct keyval_store *store, struct str key, struct arena *arena,
                struct keyval_pair *out);

/*
 * Visits some of the pairs that have not expired, in no order, and frees those that have: *cursor
 * is 0 at first. False: these were the last. Between two calls others may change the store: a pair
 * that exists all the time is visited once. The store is locked during one call, so for a bounded
 * time. visit must not wait; NULL: only frees. From any thread.
 */
bool keyval_visit(struct keyval_store *store, uint32_t *cursor,
                  void (*visit)(const struct keyval_pair *pair, void *arg), void *arg);

/* Number of pairs, some of which may have expired. */
uint64_t keyval_count(const struct keyval_store *store);

/* Incremented by each change. */
uint64_t keyval_version(const struct keyval_store *store);

/* What was last written, and to which file. */
struct keyval_written {
    uint64_t version;
    uint64_t name; /* hash of the file's name */
};

/* For code that writes the pairs to a file: the lock for this, and the data that it protects. */
struct shm_lock *keyval_file_lock(struct keyval_store *store);
struct keyval_written *keyval_file_written(struct keyval_store *store);

/* The time, in milliseconds since the epoch. */
uint64_t keyval_now(void);

#endif
