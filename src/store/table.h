/*
 * A table that several nodes share: each node has all items in its own memory, decides by them, and
 * never waits for the store to read one. Changes of a node are sent to the store, which has the
 * items in a hash; a stream contains the names of changed items, so that each node reads them from
 * its cursor on. A node that starts, or was away too long, reads all items.
 *
 * Of two changes of an item, the one that reaches the store last is kept, on all nodes. If this
 * node has changed an item and the store does not have it yet, the item is not overwritten by
 * earlier changes of others. docs/scaling-out.md describes keys, values and limits.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include "base/arena.h"
#include "store/store.h"

#define STORE_TABLE_NAME_MAX 4096 /* bytes of an item's name */

struct store_table;

struct store_item {
    struct str name; /* 1 to STORE_TABLE_NAME_MAX bytes */
    struct str value;
    uint64_t ttl_ms; /* from now; 0: it does not expire */
};

/* The functions of a table's owner, for its memory, which all workers share. None may wait unless
 * noted. */
struct store_table_kind {
    const char *purpose; /* part of the names of keys */
    /* The item of this node, in the arena; false: it has none. */
    bool (*get)(void *owner, struct str name, struct arena *arena, struct store_item *item);
    /* Another node created or changed the item. False: there is no memory for it. MAY WAIT. */
    bool (*put)(void *owner, const struct store_item *item);
    /* Another node removed the item, or all nodes did. */
    void (*drop)(void *owner, struct str name);
    /* Lists some names (struct str) of this node's items, in the arena; *cursor is 0 at first.
     * False: these were the last. */
    bool (*list)(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names);
    /* Called after each exchange, in the worker that exchanges for all; is_read: the store was read
     * successfully. MAY WAIT. May be NULL. */
    void (*exchanged)(void *owner, struct store_table *table, bool is_read);
    /* Number of this node's items; NULL: they are not counted. */
    uint64_t (*count)(const void *owner);
    bool starts_again; /* the owner's items belong to one generation: each worker that exchanges
                          reads all items first */
    bool is_secret;    /* the store needs a password, with which values are encrypted */
};

enum store_table_counter {
    STORE_TABLE_SENT,       /* changes that the store accepted */
    STORE_TABLE_RECEIVED,   /* changes of other nodes, and items that a node reads at its start */
    STORE_TABLE_NO_ROOM,    /* of these, those for which this node has no memory */
    STORE_TABLE_UNREADABLE, /* of these, those that were encrypted with another password, or
                               modified */
    STORE_TABLE_TOO_LARGE,  /* changes that are not sent because they are larger than a quarter of
                               `reply_max` */
    STORE_TABLE_FORGOTTEN,  /* changes that are not sent because too many were waiting */
    STORE_TABLE_READS,      /* number of times that all items were read */
    STORE_TABLE_COUNTERS
};

/* ---- while the configuration is read ---- */

/* The declaration of a table. */
struct store_table_wanted {
    const struct store_table_kind *kind;
    void *owner;
    struct str name; /* of the zone; unique with the purpose of the kind */
    size_t size;     /* bytes of memory for the names of items that the store does not have yet; at
                        least 8 pages */
    const struct store_sync_words *words;
    uint64_t interval_ms; /* if the parameters have none; 0: 20 ms */
};
/* Declares a table. NULL after conf_error. */
struct store_table *store_table_new(struct conf *conf, struct conf_node *node,
                                    const struct store_table_wanted *wanted);

/* Iterate over all tables of a reading. */
const struct store_table *store_table_first(struct conf *conf);
const struct store_table *store_table_after(const struct store_table *table);
struct str store_table_name(const struct store_table *table);
const struct store *store_table_store(const struct store_table *table);
uint64_t store_table_count(const struct store_table *table, enum store_table_counter counter);
/* Number of changes that the store does not have yet. */
uint64_t store_table_waiting(const struct store_table *table);
/* Number of this node's items. False: they are not counted. */
bool store_table_total(const struct store_table *table, uint64_t *total);

/* ---- in a worker ---- */

/* This node: a random number, the same in all its processes. */
uint64_t store_table_node(const struct store_table *table);
/* To be called after this node has created, changed or removed the item: it is sent with the next
 * exchange, or by store_table_flush. */
void store_table_note(struct store_table *table, struct str name);
/* To be called after this node has removed all items. */
void store_table_note_clear(struct store_table *table);
/*
 * Sends all waiting changes now, and waits until the store has these items (struct str; NULL:
 * none), which another process may be sending. MAY WAIT, at most for the store's timeout; changes
 * that the store has not accepted by then are sent later. So a change that was flushed survives
 * this node, unless the store was gone.
 */
void store_table_flush(struct store_table *table, const struct vec *names);
/* A part of this node's items was lost: the next exchange reads all items. */
void store_table_reread(struct store_table *table);
/* Reads one item from the store, for a node that needs it before the next exchange. MAY WAIT, as
   above. */
void store_table_fetch(struct store_table *table, struct str name);
/*
 * One of the nodes gets a claim on the name, for ttl_ms, or until it releases it; if the store is
 * gone, every node gets it. Claims are not items. MAY WAIT, as above.
 */
bool store_table_claim(struct store_table *table, struct str name, uint64_t ttl_ms);
void store_table_release(struct store_table *table, struct str name);
/*
 * A claim that a node takes, or extends by ttl_ms, in any of its processes: for work that must not
 * be done while the store is gone. STORE_ABSENT: another node has it. MAY WAIT, for half a second.
 */
enum store_result store_table_lease(struct store_table *table, struct str name, uint64_t ttl_ms);
/* MAY WAIT, for half a second. */
void store_table_lease_end(struct store_table *table, struct str name);

#endif
