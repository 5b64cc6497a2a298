/* A dynamic table of QPACK (RFC 9204, 3.2): entries in a ring, evicted in the order of insertion.
 * Entries are numbered from 0 in that order, like the RFC's absolute indexes. */
#ifndef HTTP_MESSAGE_FIELD_TABLE_H
#define HTTP_MESSAGE_FIELD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define FIELD_TABLE_OVERHEAD 32 /* size of an entry in addition to its strings */

struct field_entry {
    uint32_t at; /* offset in `bytes` of the name, which the value follows */
    uint32_t name_len;
    uint32_t value_len;
    uint8_t static_index; /* of the name, as in struct coded_field */
};

/* Memory is allocated for the first entry, and freed by field_table_free. */
struct field_table {
    char *bytes;
    size_t ring_size; /* size of `bytes` */
    size_t tail;      /* offset of the next entry */
    struct field_entry *entries;
    uint32_t mask;     /* size of `entries` minus 1 */
    uint32_t count;    /* entries in use */
    uint64_t inserted; /* number of insertions so far: the number of the next entry */
    size_t size;       /* in bytes, as the RFC counts */
    size_t capacity;   /* maximum of `size` */
    size_t limit;      /* maximum of `capacity` */
};

/* A hash of a field, for lookups in both kinds of tables (HPACK and QPACK). It is not keyed, so not
 * for tables that an attacker can fill. */
uint32_t field_hash(struct str name, struct str value);

void field_table_init(struct field_table *table, size_t limit);
void field_table_free(struct field_table *table);

/* Sets the capacity, at most table->limit, and evicts entries beyond it. */
void field_table_set_capacity(struct field_table *table, size_t capacity);
/* Inserts an entry, and evicts the oldest ones as needed. Name and value may point into an entry of
 * this table, even one that is evicted. False: the entry is larger than the capacity; the table is
 * unchanged. */
bool field_table_insert(struct field_table *table, struct str name, struct str value,
                        uint8_t static_index);

static inline size_t field_entry_size(size_t name_len, size_t value_len)
{
    return name_len + value_len + FIELD_TABLE_OVERHEAD;
}
/* Does the entry with this number exist? */
static inline bool field_table_has(const struct field_table *table, uint64_t number)
{
    return number < table->inserted && table->inserted - number <= table->count;
}
/* The entry with this number, which must exist. */
static inline const struct field_entry *field_table_get(const struct field_table *table,
                                                        uint64_t number)
{
    return &table->entries[number & table->mask];
}
static inline struct str field_entry_name(const struct field_table *table,
                                          const struct field_entry *entry)
{
    return (struct str){table->bytes + entry->at, entry->name_len};
}
static inline struct str field_entry_value(const struct field_table *table,
                                           const struct field_entry *entry)
{
    return (struct str){table->bytes + entry->at + entry->name_len, entry->value_len};
}

#endif
