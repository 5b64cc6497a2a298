/* The names of items that this node has changed and the store does not have yet, in shared memory:
 * first in, first out. */
#ifndef STORE_OWED_H
#define STORE_OWED_H

#include <stdatomic.h>

#include "base/shm.h"
#include "store/table.h"

struct owed_item;

/* The root of a table's zone, shared by all workers. */
struct owed {
    struct shm_lock lock; /* protects everything below, except the counters */
    struct slab *slab;
    struct owed_item *oldest, *newest;
    struct owed_item **heads;
    uint32_t heads_mask;
    bool is_clear; /* all items were dropped, and the store does not know */
    bool is_lossy; /* names were lost: everything that this node has and the store lacks must be
                      sent */
    bool is_stale; /* an item may be older than the store's: all must be read again */
    uint64_t secret[2]; /* for the hash */
    uint64_t number;    /* of the last note */
    /*
     * A command that failed may still reach the store, after one that was sent later. So each
     * command has the number of failures before it, and the store refuses a command of this node
     * with a lower number than that of an earlier one.
     */
    uint64_t node; /* this node; random */
    _Atomic uint64_t failures;
    /* How far this node has read. */
    char epoch[40]; /* of the store's items; empty: not known */
    struct store_cursor cursor;
    struct store_cursor seen; /* newest state that items were taken of */
    _Atomic uint64_t count;
    _Atomic uint64_t counts[STORE_TABLE_COUNTERS];
};

/* A name that is being sent. */
struct owed_name {
    struct str name; /* in the arena */
    uint64_t number; /* of its note */
};

/* The root of the zone, or a new one. NULL: the zone is too small. */
struct owed *owed_of(struct zone *zone);

void owed_note(struct owed *owed, struct str name);
/* Drops all names, and notes that all items were dropped. */
void owed_note_clear(struct owed *owed);
bool owed_has(struct owed *owed, struct str name);
/*
 * Takes up to `most` names that no other worker has taken, as struct owed_name in the arena. They
 * stay noted, and other workers may take them again after busy_until_ms (clock_now.now_ms time).
 */
void owed_take(struct owed *owed, size_t most, uint64_t busy_until_ms, struct arena *arena,
               struct vec *names);
/* The store has these items; names that were noted again meanwhile stay. */
void owed_done(struct owed *owed, const struct vec *names);
/* The store does not have them. */
void owed_back(struct owed *owed, const struct vec *names);

/* Gives the value of a flag (is_lossy, is_stale), and resets it. */
bool owed_take_sign(struct owed *owed, bool *sign);
void owed_set_sign(struct owed *owed, bool *sign);

/* Is the first position of a stream after the second? */
bool owed_is_after(const struct store_cursor *one, const struct store_cursor *other);
/*
 * A reply shows items at a position of the stream; several workers may process replies at the same
 * time. False: this node has taken items of a newer state, so that an item of this reply may be
 * older than its own. Otherwise this state becomes the newest.
 */
bool owed_see(struct owed *owed, const struct store_cursor *cursor);
/* The stream ends here: the store has lost later entries, or it is another store. */
void owed_see_end(struct owed *owed, const struct store_cursor *cursor);
/* Forgets what this node has read: all items must be read. */
void owed_forget_position(struct owed *owed);

/* How far this node has read; both are empty at first. */
struct owed_position {
    char epoch[40];
    struct store_cursor cursor;
};
void owed_position_get(struct owed *owed, struct owed_position *position);
void owed_position_set(struct owed *owed, const struct owed_position *position);

#endif
