/* Buckets that several nodes share by a store: what a zone of limit_req with `sync` adds to its
 * buckets. */
#ifndef SHARED_LIMIT_SYNC_H
#define SHARED_LIMIT_SYNC_H

#include "shared/limit/bucket.h"
#include "shared/limit/zone.h"
#include "store/store.h"

/*
 * How the buckets of a zone are shared. By default a node decides by its own buckets; every
 * interval it gives what it counted to the store and gets what all nodes have counted. A strict
 * zone asks the store about each request.
 */
struct bucket_sync {
    const struct limit_zone *zone;
    struct store *store;
    bool is_strict;
    uint64_t interval_ms;
    uint64_t burst;         /* units: the largest of the limits of this zone */
    struct zone *memory;    /* of `owed` */
    struct shm_table *owed; /* what the next exchange is about, by the keys of the zone */
    uint64_t secret[4];     /* of the names of keys in the store: the same on all nodes */
    struct fiber *fiber;    /* of the exchange, in one worker; NULL: it is not running */
};

/* For a zone that was declared. NULL after conf_error. */
struct bucket_sync *bucket_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct limit_zone *zone,
                                    const struct store_sync_words *words);

/* A request was counted, or was refused, by a bucket that is shared: the next exchange has it. */
void bucket_sync_note(const struct bucket_sync *sync, const struct bucket_ask *ask,
                      struct variable_env *env);
/*
 * As bucket_take, of a strict zone: the store decides, or the bucket of this node where the store
 * does not answer in time. MAY WAIT.
 */
bool bucket_sync_take(const struct bucket_sync *sync, struct bucket_ask *ask, bool counts,
                      struct variable_env *env, struct arena *arena);

/* When the whole configuration was read: the store is known. */
void bucket_sync_prepare(struct bucket_sync *sync);
/* In the worker that exchanges for all workers of this node. */
void bucket_sync_start(struct bucket_sync *sync);
void bucket_sync_end(struct bucket_sync *sync);

#endif
