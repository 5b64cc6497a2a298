/* How many requests of a key are in progress, in all workers. */
#ifndef SHARED_LIMIT_COUNTS_H
#define SHARED_LIMIT_COUNTS_H

#include "base/shm_table.h"

#define COUNT_RECORD_SIZE 48 /* bytes of a record in the zone */

/* A process that counts in the zone, so that its shares can be released if it dies. */
struct count_holder {
    uint32_t pid;  /* 0 = none */
    uint32_t held; /* number of records that name it */
};

enum { COUNT_HOLDERS = 256 };

/* The head of the table. */
struct count_head {
    uint32_t extra; /* number of records without a key */
    uint32_t pad;
    struct count_holder holders[COUNT_HOLDERS];
};

#define COUNT_NO_HOLDER COUNT_HOLDERS

/* One request's share of a count; private to the process. */
struct count_share {
    struct shm_table *table; /* NULL: it was released */
    uint32_t key;            /* number of the key's record */
    uint32_t position;       /* number of the record that names its holder */
};

enum count_result {
    COUNT_TAKEN, /* *share must be released */
    COUNT_MOST,  /* the limit is reached */
    COUNT_FULL,  /* the zone has no memory for another key */
};

/* Counts one more request of this key, unless there are `most`. holder is from count_join, or
   COUNT_NO_HOLDER. */
enum count_result count_take(struct shm_table *table, const struct shm_key *key, uint32_t most,
                             unsigned holder, struct count_share *share);

/* How many requests of this key are in progress. */
uint32_t count_now(struct shm_table *table, const struct shm_key *key);

/* Is it a share of this key's count? */
bool count_is_of(const struct count_share *share, struct shm_table *table,
                 const struct shm_key *key);

/* Releases a share; a second call does nothing. */
void count_release(struct count_share *share);

/*
 * Registers this process; gives its number. Releases the shares of processes that have died.
 * COUNT_NO_HOLDER: there are too many processes; the shares of this one stay counted if it dies.
 */
unsigned count_join(struct shm_table *table);
void count_leave(struct shm_table *table, unsigned holder);

#endif
