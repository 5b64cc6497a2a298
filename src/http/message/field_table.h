/*
 * A dynamic table of QPACK (RFC 9204, 3.2): entries in a ring, oldest first out. Entries are
 * numbered from 0 in the order of their insertion, as the RFC's absolute indexes are.
 */
#ifndef HTTP_MESSAGE_FIELD_TABLE_H
#define HTTP_MESSAGE_FIELD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define FIELD_TABLE_OVERHEAD 32 /* bytes that each entry counts beside its own */

struct field_entry {
    uint32_t at; /* in bytes: the name, and the value after it */
    uint32_t name_len;
    uint32_t value_len;
    uint8_t static_index; /* of the name, as struct coded_field has it */
};

/* Its memory is allocated with the first entry, and freed by field_table_free. */
struct field_table {
    char *bytes;
    size_t room; /* bytes of that ring */
    size_t tail; /* where the next entry's bytes go */
    struct field_entry *entries;
    uint32_t mask;     /* entries in their ring, less 1 */
    uint32_t count;    /* entries in use */
    uint64_t inserted; /* entries ever inserted: the number of the next one */
    size_t size;       /* bytes, as the RFC counts them */
    size_t capacity;   /* most of them */
    size_t limit;      /* most that the capacity may become */
};

/* Of a field, for look-ups in tables of both forms (HPACK's as well). Not for what an attacker may
 * fill: it is not keyed. */
uint32_t field_hash(struct str name, struct str value);

void field_table_init(struct field_table *table, size_t limit);
void field_table_free(struct field_table *table);

/* Evicts what does not fit any more. At most table->limit. */
void field_table_set_capacity(struct field_table *table, size_t capacity);
/*
 * Inserts an entry, evicting the oldest ones as needed. Name and value may belong to an entry of
 * this table, even to one that is evicted. False: it is larger than the capacity; the table is as
 * it was.
 */
bool field_table_insert(struct field_table *table, struct str name, struct str value,
                        uint8_t static_index);

static inline size_t field_entry_size(size_t name_len, size_t value_len)
{
    return name_len + value_len + FIELD_TABLE_OVERHEAD;
}
/* Is the entry of this number there? */
static inline bool field_table_has(const struct field_table *table, uint64_t number)
{
    return number < table->inserted && table->inserted - number <= table->count;
}
/* The entry of a number that is there. */
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
