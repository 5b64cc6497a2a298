/* QPACK's dynamic tables: memory, insertion and eviction. */
#include "http/message/field_table.h"

#include <stdlib.h>

#include "base/fatal.h"

/* The ring has three times the limit, so that entries never wrap, and a new entry overlaps neither
 * the live ones nor the one evicted last: an entry can be a copy of either. */
#define RING_TIMES 3

uint32_t field_hash(struct str name, struct str value)
{
    uint64_t hash = name.len * 0x9e3779b97f4a7c15u + value.len;
    uint64_t word;

    if (name.len >= 8) {
        memcpy(&word, name.data + name.len - 8, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    } else {
        for (size_t i = 0; i < name.len; i++) {
            hash = hash * 31 + (unsigned char) name.data[i];
        }
    }
    size_t i = 0;
    for (; i + 8 <= value.len; i += 8) {
        memcpy(&word, value.data + i, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 29;
    }
    if (i < value.len &&
        value.len >= 8) { /* the last eight bytes, some of which were hashed already */
        memcpy(&word, value.data + value.len - 8, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        i = value.len;
    }
    for (; i < value.len; i++) {
        hash = (hash ^ (unsigned char) value.data[i]) * 0x100000001b3u;
    }
    return (uint32_t) (hash ^ hash >> 32);
}

void field_table_init(struct field_table *table, size_t limit)
{
    *table = (struct field_table){.limit = limit};
}

void field_table_free(struct field_table *table)
{
    free(table->bytes);
    free(table->entries);
    *table = (struct field_table){0};
}

static void *table_allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fatal_no_memory(count * size);
    }
    return memory;
}

static void make_rings(struct field_table *table)
{
    uint32_t count = 1;

    table->ring_size = table->limit * RING_TIMES;
    table->bytes = table_allocate(1, table->ring_size);
    while (count < table->limit / FIELD_TABLE_OVERHEAD + 1) {
        count *= 2;
    }
    table->entries = table_allocate(count, sizeof(*table->entries));
    table->mask = count - 1;
}

/* Evicts the oldest entries until the size is at most `size`. */
static void table_shrink(struct field_table *table, size_t size)
{
    while (table->size > size) {
        const struct field_entry *oldest = field_table_get(table, table->inserted - table->count);

        table->size -= field_entry_size(oldest->name_len, oldest->value_len);
        table->count--;
    }
}

void field_table_set_capacity(struct field_table *table, size_t capacity)
{
    table->capacity = capacity < table->limit ? capacity : table->limit;
    table_shrink(table, table->capacity);
}

bool field_table_insert(struct field_table *table, struct str name, struct str value,
                        uint8_t static_index)
{
    size_t length = name.len + value.len;
    size_t size = field_entry_size(name.len, value.len);

    if (size > table->capacity) {
        return false;
    }
    table_shrink(table, table->capacity - size);
    if (table->bytes == NULL) {
        make_rings(table);
    }
    if (table->tail + length > table->ring_size) {
        table->tail = 0;
    }
    struct field_entry *entry = &table->entries[table->inserted++ & table->mask];
    *entry = (struct field_entry){(uint32_t) table->tail, (uint32_t) name.len, (uint32_t) value.len,
                                  static_index};
    str_put(str_put(table->bytes + table->tail, name), value);
    table->tail += length;
    table->size += size;
    table->count++;
    return true;
}
