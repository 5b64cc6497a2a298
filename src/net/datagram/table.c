/* Tables of things that are found by a hash. */
#include "net/datagram/table.h"

#include <stdlib.h>

#include "base/fatal.h"

#define BUCKETS_LEAST 8u /* a connection with few streams has one, too */
#define OTHER_BITS 16    /* of a hash, which choose the bucket of the directory */

static struct hashed **datagram_table_bucket_of(const struct hashed_table *table, uint64_t hash)
{
    return &table->buckets[hash >> OTHER_BITS & (table->size - 1)];
}

static void grow(struct hashed_table *table)
{
    size_t size = table->size == 0 ? BUCKETS_LEAST : table->size * 2;
    const struct hashed_table larger = {.buckets = calloc(size, sizeof(struct hashed *)),
                                        .size = size,
                                        .count = table->count};

    if (larger.buckets == NULL) {
        fatal_no_memory(size * sizeof(struct hashed *));
    }
    for (size_t i = 0; i < table->size; i++) {
        for (struct hashed *entry = table->buckets[i], *next; entry != NULL; entry = next) {
            struct hashed **bucket = datagram_table_bucket_of(&larger, entry->hash);

            next = entry->next;
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    free(table->buckets);
    *table = larger;
}

struct hashed *hashed_first(const struct hashed_table *table, uint64_t hash)
{
    return table->size == 0 ? NULL : *datagram_table_bucket_of(table, hash);
}

void hashed_add(struct hashed_table *table, struct hashed *entry, uint64_t hash)
{
    if (table->count >= table->size) {
        grow(table);
    }
    struct hashed **bucket = datagram_table_bucket_of(table, hash);
    entry->hash = hash;
    entry->next = *bucket;
    *bucket = entry;
    table->count++;
}

void hashed_remove(struct hashed_table *table, struct hashed *entry)
{
    struct hashed **link = datagram_table_bucket_of(table, entry->hash);

    while (*link != entry) {
        link = &(*link)->next;
    }
    *link = entry->next;
    table->count--;
}

void hashed_free(struct hashed_table *table)
{
    free(table->buckets);
    *table = (struct hashed_table){.buckets = NULL};
}
