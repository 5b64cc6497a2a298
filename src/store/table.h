/*
 * A table that several nodes have in common: each node has all items in memory of its own, decides
 * by them, and never waits for the store to read one. What a node changes goes to the store, which
 * has the items in a hash; a stream names the items that changed, so that each node reads them from
 * its cursor on. A node that was away too long, or starts, reads all.
 *
 * Of two changes of an item the one that reaches the store last counts, on all nodes. An item that
 * this node has changed and the store does not have yet is not overwritten by what others changed
 * before. docs/scaling-out.md has keys, values and bounds.
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
    uint64_t ttl_ms; /* from now; 0: it stays */
};

/* What a table is made of: functions over the memory of its owner, which all workers share. None
 * may wait unless it says so. */
struct store_table_kind {
    const char *purpose; /* in the names of keys */
    /* The item that this node has, in the arena; false: none. */
    bool (*get)(void *owner, struct str name, struct arena *arena, struct store_item *item);
    /* Another node made or changed it. False: there is no room. MAY WAIT. */
    bool (*put)(void *owner, const struct store_item *item);
    /* Another node dropped it, or all nodes have. */
    void (*drop)(void *owner, struct str name);
    /* Some names (struct str) of those that this node has, in the arena; *cursor is 0 at first.
     * False: these were the last. */
    bool (*list)(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names);
    /* After each exchange, in the worker that does it for all; is_read: this node has what the
     * store had. MAY WAIT. NULL: nothing. */
    void (*exchanged)(void *owner, struct store_table *table, bool is_read);
    /* Items that this node has; NULL: they are not counted. */
    uint64_t (*count)(const void *owner);
    bool starts_again; /* what the owner has is of one generation: each worker that exchanges reads
                          all items first */
    bool is_secret;    /* the store needs a password, by which values are encrypted */
};

enum store_table_counter {
    STORE_TABLE_SENT,       /* changes that the store took */
    STORE_TABLE_RECEIVED,   /* changes of other nodes, or what a node reads when it starts */
    STORE_TABLE_NO_ROOM,    /* of them: those that this node has no room for */
    STORE_TABLE_UNREADABLE, /* of them: those that were encrypted with another password, or changed
                             */
    STORE_TABLE_TOO_LARGE,  /* changes that other nodes do not get: larger than a quarter of
                               `reply_max` */
    STORE_TABLE_FORGOTTEN,  /* changes that other nodes do not get: too many waited */
    STORE_TABLE_READS,      /* times that all items were read */
    STORE_TABLE_COUNTERS
};

/* ---- when the configuration is read ---- */

/* How a table is declared. */
struct store_table_wanted {
    const struct store_table_kind *kind;
    void *owner;
    struct str name; /* of the zone; with the kind's purpose unique in the configuration */
    size_t size;     /* bytes of memory for the names of items that the store does not have yet; at
                        least 8 pages */
    const struct store_sync_words *words;
    uint64_t interval_ms; /* where the words have none; 0: 20 ms */
};
/* NULL after conf_error. */
struct store_table *store_table_new(struct conf *conf, struct conf_node *node,
                                    const struct store_table_wanted *wanted);

/* All tables of a reading, from one to the next. */
const struct store_table *store_table_first(struct conf *conf);
const struct store_table *store_table_after(const struct store_table *table);
struct str store_table_name(const struct store_table *table);
const struct store *store_table_store(const struct store_table *table);
uint64_t store_table_count(const struct store_table *table, enum store_table_counter counter);
/* Changes that the store does not have yet. */
uint64_t store_table_waiting(const struct store_table *table);
/* Items that this node has. False: they are not counted. */
bool store_table_total(const struct store_table *table, uint64_t *total);

/* ---- in a worker ---- */

/* This node: a random number, the same in all its processes. */
uint64_t store_table_node(const struct store_table *table);
/* This node made, changed or dropped the item: the store gets it with the next exchange, or by
 * store_table_flush. */
void store_table_note(struct store_table *table, struct str name);
/* This node dropped all items. */
void store_table_note_clear(struct store_table *table);
/*
 * Sends what waits now, until the store has these items (struct str; NULL: none), which another
 * process may be sending. MAY WAIT, for the store's timeout at most; what the store has not taken
 * then, it gets later. So a change that was flushed outlives this node, unless the store was gone.
 */
void store_table_flush(struct store_table *table, const struct vec *names);
/* What this node has was lost in part: the next exchange reads all items. */
void store_table_reread(struct store_table *table);
/* Reads one item from the store, for a node that was asked before it knew. MAY WAIT, as above. */
void store_table_fetch(struct store_table *table, struct str name);
/*
 * Of all nodes one gets a claim on the name, for ttl_ms, or until it releases it; where the store
 * is gone, each node does. Claims are no items. MAY WAIT, as above.
 */
bool store_table_claim(struct store_table *table, struct str name, uint64_t ttl_ms);
void store_table_release(struct store_table *table, struct str name);
/*
 * A claim that a node takes, or has again for ttl_ms, in whichever process: for work that must not
 * be done while the store is gone. STORE_ABSENT: another node has it. MAY WAIT, for half a second.
 */
enum store_result store_table_lease(struct store_table *table, struct str name, uint64_t ttl_ms);
/* MAY WAIT, for half a second. */
void store_table_lease_end(struct store_table *table, struct str name);

#endif
