/* Purges that reach all nodes with a cache of this name: `sync` of *_cache_path. Implemented in
 * sync.c. */
#ifndef CACHE_SYNC_H
#define CACHE_SYNC_H

#include "cache/internal.h"
#include "store/store.h"

struct cache_sync;

/* To be called while the configuration is read, when the cache has its path. NULL after
 * conf_error. */
struct cache_sync *cache_sync_new(struct conf *conf, struct conf_node *node, struct cache *cache,
                                  const struct store_sync_words *words);

/*
 * This node has purged a key, or a prefix of `length` bytes; the digest is its MD5. Passes the
 * purge to other nodes. MAY WAIT, for the store's timeout at most; what the store has not accepted
 * by then is sent later.
 */
void cache_sync_key(struct cache_sync *sync, const uint8_t digest[CACHE_KEY_SIZE]);
void cache_sync_prefix(struct cache_sync *sync, uint64_t length,
                       const uint8_t digest[CACHE_KEY_SIZE]);

#endif
