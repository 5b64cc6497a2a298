/*
 * How many requests of a key are in progress, in all workers.
 *
 * The record of a key has the total, and names one holder. Each further request has a record of its
 * own that names its holder; if there are too many of these, it is only counted. So the requests of
 * a process that has died can be found.
 */
#include "shared/limit/counts.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    NOBODY = 0,      /* owner: none is named; else the holder's number plus one */
    EXTRA_SHARE = 4, /* at most a quarter of the records are without a key */
};

#define UNNAMED SHM_NO_RECORD /* position of a share that is only counted */

/* A record: of a key, or of one more request of a key (SHM_PLAIN). */
struct counted {
    struct shm_record record;
    uint32_t total; /* of a key: requests in progress; else the number of the key's record */
    uint32_t owner; /* the holder of one request */
};
_Static_assert(sizeof(struct counted) == COUNT_RECORD_SIZE, "as the header says");

/* In the record of a key: requests without a named holder. */
#define unnamed_of(counted) ((counted)->record.spare)

static struct count_head *head_of(struct shm_table *table)
{
    return shm_table_head(table);
}

static struct counted *counted_at(struct shm_table *table, uint32_t number)
{
    return shm_table_at(table, number);
}

/* ---- whole tables; called with the lock held ---- */

/* Computes the totals from the records that name a holder, after a process died while it held the
   lock. */
static void recount(struct shm_table *table)
{
    struct count_head *head = head_of(table);
    uint32_t count = shm_table_count(table);

    head->extra = 0;
    for (unsigned i = 0; i < COUNT_HOLDERS; i++) {
        head->holders[i].held = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct counted *key = counted_at(table, i);

        if (key->record.kind == SHM_KEYED) {
            key->total = unnamed_of(key) + (key->owner != NOBODY);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct counted *extra = counted_at(table, i);

        if (extra->record.kind != SHM_PLAIN) {
            continue;
        }
        if (extra->owner == NOBODY || extra->total >= count ||
            counted_at(table, extra->total)->record.kind != SHM_KEYED) {
            shm_table_drop(table, extra);
            continue;
        }
        counted_at(table, extra->total)->total++;
        head->extra++;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct counted *counted = counted_at(table, i);

        if (counted->record.kind == SHM_KEYED && counted->total == 0) {
            shm_table_drop(table, counted);
        } else if (counted->record.kind != SHM_FREE && counted->owner != NOBODY) {
            head->holders[counted->owner - 1].held++;
        }
    }
}

static void counts_lock(struct shm_table *table)
{
    if (shm_table_lock(table)) {
        recount(table);
    }
}

/* ---- one request ---- */

/* Names the holder of one more request: in the key's record, in an additional one, or nowhere.
   Gives the position. */
static uint32_t name_holder(struct shm_table *table, struct counted *key, unsigned holder)
{
    struct count_head *head = head_of(table);

    if (holder != COUNT_NO_HOLDER && key->owner == NOBODY) {
        key->owner = holder + 1;
        head->holders[holder].held++;
        return key->record.number;
    }
    struct counted *extra =
        holder == COUNT_NO_HOLDER || head->extra >= shm_table_capacity(table) / EXTRA_SHARE
            ? NULL
            : shm_table_take(table);
    if (extra == NULL) {
        unnamed_of(key)++;
        return UNNAMED;
    }
    extra->total = key->record.number;
    extra->owner = holder + 1;
    head->extra++;
    head->holders[holder].held++;
    return extra->record.number;
}

enum count_result count_take(struct shm_table *table, const struct shm_key *key, uint32_t most,
                             unsigned holder, struct count_share *share)
{
    enum count_result result = COUNT_TAKEN;

    counts_lock(table);
    struct counted *counted = shm_table_find(table, key);
    if (most == 0 || (counted != NULL && counted->total >= most)) {
        result = COUNT_MOST;
    } else if (counted == NULL && (counted = shm_table_add(table, key)) == NULL) {
        result = COUNT_FULL;
    } else {
        uint32_t position = name_holder(table, counted, holder);

        counted->total++;
        *share = (struct count_share){table, counted->record.number, position};
    }
    shm_table_unlock(table);
    return result;
}

uint32_t count_now(struct shm_table *table, const struct shm_key *key)
{
    counts_lock(table);
    const struct counted *counted = shm_table_find(table, key);
    uint32_t total = counted == NULL ? 0 : counted->total;
    shm_table_unlock(table);
    return total;
}

bool count_is_of(const struct count_share *share, struct shm_table *table,
                 const struct shm_key *key)
{
    /* The key of a record does not change while there is a share of it. */
    return share->table == table &&
           memcmp(&counted_at(table, share->key)->record.key, key, sizeof(*key)) == 0;
}

/* Removes one request. The record at `position` (that of the key, an additional one, or none) does
 * not name a holder any more. */
static void give_back(struct shm_table *table, struct counted *key, uint32_t position)
{
    struct count_head *head = head_of(table);

    if (position == UNNAMED) {
        unnamed_of(key)--;
    } else {
        struct counted *named = counted_at(table, position);

        head->holders[named->owner - 1].held--;
        named->owner = NOBODY;
        if (named != key) {
            head->extra--;
            shm_table_drop(table, named);
        }
    }
    if (--key->total == 0) {
        shm_table_drop(table, key);
    }
}

void count_release(struct count_share *share)
{
    struct shm_table *table = share->table;

    if (table != NULL) {
        share->table = NULL;
        counts_lock(table);
        give_back(table, counted_at(table, share->key), share->position);
        shm_table_unlock(table);
    }
}

/* ---- processes; called with the lock held, except the last two ---- */

static bool is_alive(uint32_t pid)
{
    return kill((pid_t) pid, 0) == 0 || errno != ESRCH;
}

/* Releases the shares of a process that has died. */
static void bury(struct shm_table *table, unsigned holder)
{
    struct count_holder *dead = &head_of(table)->holders[holder];

    for (uint32_t i = 0; dead->held != 0 && i < shm_table_count(table); i++) {
        struct counted *counted = counted_at(table, i);

        if (counted->record.kind == SHM_FREE || counted->owner != holder + 1) {
            continue;
        }
        struct counted *key =
            counted->record.kind == SHM_KEYED ? counted : counted_at(table, counted->total);
        give_back(table, key, i);
    }
    dead->pid = 0;
}

unsigned count_join(struct shm_table *table)
{
    struct count_holder *holders = head_of(table)->holders;
    unsigned mine = COUNT_NO_HOLDER;

    counts_lock(table);
    for (unsigned i = 0; i < COUNT_HOLDERS; i++) {
        if (holders[i].pid != 0 && !is_alive(holders[i].pid)) {
            bury(table, i);
        }
        if (holders[i].pid == 0 && mine == COUNT_NO_HOLDER) {
            mine = i;
        }
    }
    if (mine != COUNT_NO_HOLDER) {
        holders[mine] = (struct count_holder){.pid = (uint32_t) getpid()};
    }
    shm_table_unlock(table);
    return mine;
}

void count_leave(struct shm_table *table, unsigned holder)
{
    if (holder != COUNT_NO_HOLDER) {
        counts_lock(table);
        if (head_of(table)->holders[holder].held == 0) {
            head_of(table)->holders[holder].pid = 0;
        }
        shm_table_unlock(table);
    }
}
