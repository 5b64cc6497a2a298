/* Keys and values in a zone of shared memory, found by a text: all of it, an address in a network,
 * or its beginning. */
#ifndef SHARED_KEYVAL_STORE_H
#define SHARED_KEYVAL_STORE_H

#include "base/arena.h"
#include "base/shm.h"

/* How a text is compared with the keys. */
enum keyval_type {
    KEYVAL_STRING, /* it is the key */
    KEYVAL_IP,    /* the key is an address or a network that it lies in: the longest prefix holds */
    KEYVAL_PREFIX /* it begins with the key: the longest one holds */
};

#define KEYVAL_KEY_MAX 4096 /* bytes of a key */
#define KEYVAL_NEVER 0      /* of expires_ms */

struct keyval_store;

/* A key and its value, as the world outside sees them. */
struct keyval_pair {
    struct str key;
    struct str value;
    uint64_t expires_ms; /* since the epoch; KEYVAL_NEVER: it stays */
};

/* What is wanted of a key. */
struct keyval_change {
    struct keyval_pair pair;
    bool is_deleted;  /* the key goes */
    bool keeps_value; /* of one that is there: only expires_ms changes */
};

enum keyval_result {
    KEYVAL_DONE,
    KEYVAL_EXISTS,  /* a key that was to be made is there */
    KEYVAL_ABSENT,  /* one that was to be changed is not */
    KEYVAL_BAD_KEY, /* too long, empty, or no address */
    KEYVAL_FULL     /* the zone has no room for all of them; there may be some once keyval_visit has
                       seen all of it */
};

/* The store that is the root of the zone, or a new and empty one. NULL: no room. */
struct keyval_store *keyval_store_of(struct zone *zone, enum keyval_type type);

enum keyval_type keyval_store_type(const struct keyval_store *store);

/* A key in the one form by which all nodes know it: a network as "ADDRESS/BITS". In the arena, or
 * the key itself; empty: it is none. */
struct str keyval_canonical(const struct keyval_store *store, struct str key, struct arena *arena);

/* The value that a text has now, copied to the arena. */
bool keyval_find(struct keyval_store *store, struct str text, struct arena *arena, struct str *out);

/* Makes keys that are not there, or changes those that are: all of the changes or, unless
 * KEYVAL_DONE, none. */
enum keyval_result keyval_make(struct keyval_store *store, const struct vec *changes);
enum keyval_result keyval_change(struct keyval_store *store, const struct vec *changes);
/* All keys go, at once; keyval_visit gives their memory back. */
void keyval_clear(struct keyval_store *store);

/* The pair of this very key, copied to the arena. */
bool keyval_get(struct keyval_store *store, struct str key, struct arena *arena,
                struct keyval_pair *out);

/*
 * Sees some of the pairs that have not expired, in no order, and gives back the memory of those
 * that have: *cursor is 0 at first. False: these were the last. Between two calls others may change
 * the store: a pair that was there all the time is seen once. The store is locked for one call, so
 * for a bounded time. visit may not wait; NULL: nobody looks. From any thread.
 */
bool keyval_visit(struct keyval_store *store, uint32_t *cursor,
                  void (*visit)(const struct keyval_pair *pair, void *arg), void *arg);

/* Pairs, of which some may have expired. */
uint64_t keyval_count(const struct keyval_store *store);

/* Raised with each change. */
uint64_t keyval_version(const struct keyval_store *store);

/* What was written last, and where to. */
struct keyval_written {
    uint64_t version;
    uint64_t name; /* hash of the file's */
};

/* For code that keeps the pairs in a file: the lock of that, and what it guards. */
struct shm_lock *keyval_file_lock(struct keyval_store *store);
struct keyval_written *keyval_file_written(struct keyval_store *store);

/* Milliseconds since the epoch, now. */
uint64_t keyval_now(void);

#endif
