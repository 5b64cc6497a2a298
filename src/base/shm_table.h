/* A table in a zone of shared memory: records of one size, found by key, in the order of use. */
#ifndef BASE_SHM_TABLE_H
#define BASE_SHM_TABLE_H

#include "base/shm.h"

/*
 * The bytes of a key are not kept: 128 bits of a hash with a secret of the table stand for them, so
 * that keys of any length cost the same, and nobody outside can make two that meet.
 */
struct shm_key {
    uint64_t words[2];
};

/* What a record is. Lists and counters are indexes of that, rebuilt when a process died inside. */
enum shm_record_kind {
    SHM_FREE,  /* nothing */
    SHM_KEYED, /* found by its key, and in the order of use */
    SHM_PLAIN  /* taken without a key: known by its number alone */
};

/* The beginning of each record; what its user keeps there follows. Numbers, not pointers, link
 * them. */
struct shm_record {
    struct shm_key key;
    uint32_t next;         /* of the same hash head, or of the free ones */
    uint32_t newer, older; /* in the order of use */
    uint32_t number;       /* its own */
    uint32_t kind;         /* enum shm_record_kind */
    uint32_t spare;        /* its user's */
};

#define SHM_NO_RECORD UINT32_MAX

struct shm_table;

/*
 * The table that is the root of the zone, or a new one, which may take all of its memory by and by.
 * head_size bytes, cleared, are its user's own. record_size counts struct shm_record, and is a
 * multiple of 8. NULL: no room.
 */
struct shm_table *shm_table_of(struct zone *zone, size_t record_size, size_t head_size);

/* What its user keeps once for a table. */
void *shm_table_head(const struct shm_table *table);

/* The key that stands for these bytes. Needs no lock. */
struct shm_key shm_table_key(const struct shm_table *table, struct str bytes);

/*
 * Everything below needs the lock, which is never held across a wait. True: a process died inside;
 * the table was repaired, records whose kind was set are there, their order of use is not known any
 * more, and what their user derived from them must be derived again.
 */
bool shm_table_lock(struct shm_table *table);
void shm_table_unlock(struct shm_table *table);

/* The record of a key, or NULL. */
void *shm_table_find(struct shm_table *table, const struct shm_key *key);
/* A cleared record for a key that has none, as the one used last; NULL when all are taken. */
void *shm_table_add(struct shm_table *table, const struct shm_key *key);
/* A cleared one without a key. */
void *shm_table_take(struct shm_table *table);
void shm_table_drop(struct shm_table *table, void *record);

/* It was used now. */
void shm_table_touch(struct shm_table *table, void *record);
/* The one with a key that was not used for longest, or NULL. */
void *shm_table_oldest(const struct shm_table *table);

/* Records by number: all below shm_table_count, of any kind. */
uint32_t shm_table_count(const struct shm_table *table);
void *shm_table_at(const struct shm_table *table, uint32_t number);

/* How many records there may be, at most. */
uint32_t shm_table_capacity(const struct shm_table *table);

#endif
