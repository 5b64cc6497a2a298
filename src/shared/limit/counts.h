/* How many requests of a key are under way, over all workers. */
#ifndef SHARED_LIMIT_COUNTS_H
#define SHARED_LIMIT_COUNTS_H

#include "base/shm_table.h"

#define COUNT_RECORD_SIZE 48 /* bytes of a record in the zone */

/* A process that counts in the zone, so that what it holds can be given back should it die. */
struct count_holder {
    uint32_t pid;  /* 0 = none */
    uint32_t held; /* records that name it */
};

enum { COUNT_HOLDERS = 256 };

/* The head of the table. */
struct count_head {
    uint32_t extra; /* records without a key */
    uint32_t pad;
    struct count_holder holders[COUNT_HOLDERS];
};

#define COUNT_NO_HOLDER COUNT_HOLDERS

/* One request's share of a count; private to the process. */
struct count_share {
    struct shm_table *table; /* NULL: it was given back */
    uint32_t key;            /* number of the key's record */
    uint32_t position;       /* number of the record that says whose it is */
};

enum count_result {
    COUNT_TAKEN, /* *share is to be released */
    COUNT_MOST,  /* as many as may be are under way */
    COUNT_FULL,  /* the zone has no room for another key */
};

/* One more of this key, unless there are `most`. holder is of count_join, or COUNT_NO_HOLDER. */
enum count_result count_take(struct shm_table *table, const struct shm_key *key, uint32_t most,
                             unsigned holder, struct count_share *share);

/* How many of this key are under way. */
uint32_t count_now(struct shm_table *table, const struct shm_key *key);

/* Is it a share of this key's count? */
bool count_is_of(const struct count_share *share, struct shm_table *table,
                 const struct shm_key *key);

/* Gives it back; harmless the second time. */
void count_release(struct count_share *share);

/*
 * This process begins to count: its number. What processes held that have died is given back.
 * COUNT_NO_HOLDER: as many as can be are there; what this one counts stays counted if it dies.
 */
unsigned count_join(struct shm_table *table);
void count_leave(struct shm_table *table, unsigned holder);

#endif
