/* A table in a zone of shared memory: records of one size, found by key, in order of use. */
#ifndef BASE_SHM_TABLE_H
#define BASE_SHM_TABLE_H

#include "base/shm.h"

/*
 * A key is a 128-bit hash with a secret of the table; the bytes themselves are not kept. So keys of
 * any length cost the same, and clients cannot construct two with the same hash.
 */
struct shm_key {
    uint64_t words[2];
};

/* The state of a record. Lists and counters are derived from it, and are rebuilt when a process
   died while it changed the table. */
enum shm_record_kind {
    SHM_FREE,  /* not in use */
    SHM_KEYED, /* found by its key, and in the order of use */
    SHM_PLAIN  /* without a key: known by its number alone */
};

/* The beginning of each record; the user's data follows. Records are linked by numbers, not by
 * pointers. */
struct shm_record {
    struct shm_key key;
    uint32_t next;         /* of the same hash head, or of the free records */
    uint32_t newer, older; /* in the order of use */
    uint32_t number;       /* its own */
    uint32_t kind;         /* enum shm_record_kind */
    uint32_t spare;        /* for the user */
};

#define SHM_NO_RECORD UINT32_MAX

struct shm_table;

/*
 * The table that is the root of the zone, or a new one, which may gradually take all memory of the
 * zone. head_size bytes, cleared, are for the user. record_size includes struct shm_record, and is
 * a multiple of 8. NULL: the zone is too small.
 */
struct shm_table *shm_table_of(struct zone *zone, size_t record_size, size_t head_size);

/* The user's data of the table (head_size bytes). */
void *shm_table_head(const struct shm_table *table);

/* The key of these bytes. Needs no lock. */
struct shm_key shm_table_key(const struct shm_table *table, struct str bytes);

/*
 * All functions below need the lock, which is never held across a wait. True: a process died while
 * it held the lock; the table was repaired. Records whose kind was set exist, their order of use is
 * lost, and the user must derive its own indexes again.
 */
bool shm_table_lock(struct shm_table *table);
void shm_table_unlock(struct shm_table *table);

/* The record of a key, or NULL. */
void *shm_table_find(struct shm_table *table, const struct shm_key *key);
/* A new, cleared record for a key that has none, as the most recently used one; NULL when there is
   no memory. */
void *shm_table_add(struct shm_table *table, const struct shm_key *key);
/* A new, cleared record without a key. */
void *shm_table_take(struct shm_table *table);
void shm_table_drop(struct shm_table *table, void *record);

/* Marks the record as used now. */
void shm_table_touch(struct shm_table *table, void *record);
/* The record with a key that was unused for the longest time, or NULL. */
void *shm_table_oldest(const struct shm_table *table);

/* Records by number: all those below shm_table_count, of any kind. */
uint32_t shm_table_count(const struct shm_table *table);
void *shm_table_at(const struct shm_table *table, uint32_t number);

/* The highest possible number of records. */
uint32_t shm_table_capacity(const struct shm_table *table);

#endif
