/* Things of this worker that are found by a hash: one look, then those of the same bucket. Private
 * to this package. */
#ifndef NET_DATAGRAM_TABLE_H
#define NET_DATAGRAM_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Embedded in what is to be found. */
struct hashed {
    struct hashed *next; /* in its bucket; while it is in none, its owner's */
    uint64_t hash;
};

/* All zero: empty. It grows with what is in it. */
struct hashed_table {
    struct hashed **buckets;
    size_t size; /* of these: a power of two; 0 = none yet */
    size_t count;
};

/* The first of its bucket, others of the same hash among those after it; or NULL. */
struct hashed *hashed_first(const struct hashed_table *table, uint64_t hash);
/* Ends the process when there is no memory. */
void hashed_add(struct hashed_table *table, struct hashed *entry, uint64_t hash);
/* It must be in it. */
void hashed_remove(struct hashed_table *table, struct hashed *entry);
/* Lets go of the buckets; what was in them is its owner's. */
void hashed_free(struct hashed_table *table);

#endif
