/* Inside lua/dict: the table in shared memory. Everything here needs its lock. */
#ifndef LUA_DICT_TABLE_H
#define LUA_DICT_TABLE_H

#include <stdatomic.h>

#include "lua/dict/dict.h"

/* A place in the zone, in units of 16 bytes from its beginning; 0 = none. */
typedef uint32_t dict_ref;

/* An entry; in a piece of the zone's allocator. */
struct dict_item {
    dict_ref next;         /* of the same head */
    dict_ref newer, older; /* in the order of use */
    uint32_t hash;         /* of the key */
    uint64_t expires_ms;   /* of the monotonic clock; 0 = never */
    uint32_t value_len;    /* bytes */
    uint32_t flags;        /* the user's */
    uint16_t key_len;      /* bytes */
    uint8_t type;          /* enum dict_type */
    uint8_t is_torn;       /* its value is being written */
    char data[];           /* the key, then the value */
};

/* The value of a list. */
struct dict_list {
    dict_ref first, last;
    uint32_t count;
};

/* An element of a list. */
struct dict_node {
    dict_ref next, previous;
    uint32_t len;  /* bytes of data */
    uint32_t type; /* DICT_NUMBER, DICT_STRING */
    char data[];
};

/*
 * What decides which entries there are, should a process die inside: the chains of the heads, and
 * those of lists in the direction of next. Each change of them is one store. All else is rebuilt
 * from them, and what they do not reach is freed.
 */
struct dict_table {
    struct shm_lock lock;
    struct slab *slab;       /* of the zone */
    char *base;              /* the zone's memory; at the same place everywhere */
    dict_ref end;            /* of the zone */
    uint32_t mask;           /* number of heads less one */
    dict_ref newest, oldest; /* by the last use */
    dict_ref heads[];
};

static inline void *dict_at(const struct dict_table *table, dict_ref ref)
{
    return table->base + ((size_t) ref << 4);
}

static inline struct dict_item *dict_item_at(const struct dict_table *table, dict_ref ref)
{
    return dict_at(table, ref);
}

static inline dict_ref dict_ref_of(const struct dict_table *table, const void *piece)
{
    return (dict_ref) ((size_t) ((const char *) piece - table->base) >> 4);
}

/* A store that decides what is there, should the process die: earlier ones come before it, later
 * ones after. */
static inline void dict_decide(dict_ref *place, dict_ref value)
{
    atomic_signal_fence(memory_order_seq_cst);
    *place = value;
    atomic_signal_fence(memory_order_seq_cst);
}

/* A bit for each place in the zone: what was reached after a death. */
static inline void dict_mark(unsigned char *marks, dict_ref ref)
{
    marks[ref / 8] |= (unsigned char) (1 << ref % 8);
}

static inline char *dict_value_of(struct dict_item *item)
{
    return item->data + item->key_len;
}

/* Takes the lock; repairs the table when a process died inside. */
void dict_lock(struct dict_table *table);
void dict_unlock(struct dict_table *table);

uint32_t dict_hash(struct str key);
/* The item of a key, or NULL; expired or not. */
struct dict_item *dict_find(const struct dict_table *table, struct str key, uint32_t hash);
/* It was used now. */
void dict_touch(struct dict_table *table, struct dict_item *item);
static inline bool dict_has_expired(const struct dict_item *item, uint64_t now_ms)
{
    return item->expires_ms != 0 && item->expires_ms <= now_ms;
}

/* A new item with the key and room for so many bytes of value, in no chain. NULL: no memory. */
struct dict_item *dict_item_new(struct dict_table *table, struct str key, uint32_t hash,
                                size_t value_len);
/* It is in its chain from now on. */
void dict_item_add(struct dict_table *table, struct dict_item *item);
/* Out of the chain and freed, with what its value has. */
void dict_item_remove(struct dict_table *table, struct dict_item *item);
/* Has it room for so many bytes of value, in a piece of the size that a new one would have? */
bool dict_item_fits(const struct dict_item *item, size_t value_len);

/* Removes the oldest items when they have expired, at most so many; for what is about to add. */
void dict_drop_expired(struct dict_table *table, unsigned most);
/* Removes the oldest item. False: there is none. *was_valid is set when it had not expired. */
bool dict_evict(struct dict_table *table, bool *was_valid);

/* ---- lists.c */

/* Frees the elements of an item that is a list. */
void dict_list_clear(struct dict_table *table, struct dict_item *item);
/* After a death inside: recomputes counts and backward links. Elements are those that can be
 * reached, and marked. False: there are none. */
bool dict_list_mend(struct dict_table *table, struct dict_item *item, unsigned char *marks);

#endif
