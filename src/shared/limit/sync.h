/* Buckets that several nodes share through a store: the addition of `sync` to a zone of
 * limit_req. */
#ifndef SHARED_LIMIT_SYNC_H
#define SHARED_LIMIT_SYNC_H

#include "shared/limit/bucket.h"
#include "shared/limit/zone.h"
#include "store/store.h"

/*
 * How the buckets of a zone are shared. By default a node decides with its own buckets; in each
 * interval it sends the units that it counted to the store and receives the totals of all nodes. In
 * a strict zone each request is checked by the store.
 */
struct bucket_sync {
    const struct limit_zone *zone;
    struct store *store;
    bool is_strict;
    uint64_t interval_ms;
    uint64_t burst;         /* units: the highest one of the zone's limits */
    struct zone *memory;    /* holds `owed` */
    struct shm_table *owed; /* the keys of the next exchange, by the keys of the zone */
    uint64_t secret[4];     /* for the names of keys in the store: the same on all nodes */
    struct fiber *fiber;    /* runs the exchange, in one worker; NULL: not running */
};

/* For a declared zone. NULL after conf_error. */
struct bucket_sync *bucket_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct limit_zone *zone,
                                    const struct store_sync_words *words);

/* Lists a shared bucket, which has counted or refused a request, for the next exchange. */
void bucket_sync_note(const struct bucket_sync *sync, const struct bucket_ask *ask,
                      struct variable_env *env);
/*
 * The same as bucket_take for a strict zone: the store decides, or the bucket of this node if the
 * store does not reply in time. MAY WAIT.
 */
bool bucket_sync_take(const struct bucket_sync *sync, struct bucket_ask *ask, bool counts,
                      struct variable_env *env, struct arena *arena);

/* To be called when the whole configuration was read, since the store is known then. */
void bucket_sync_prepare(struct bucket_sync *sync);
/* Called in the worker that exchanges for all workers of this node. */
void bucket_sync_start(struct bucket_sync *sync);
void bucket_sync_end(struct bucket_sync *sync);

#endif
