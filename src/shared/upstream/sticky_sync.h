/* `sticky learn` with `sync`: sessions that all nodes know. Implemented in sticky_sync.c. */
#ifndef SHARED_UPSTREAM_STICKY_SYNC_H
#define SHARED_UPSTREAM_STICKY_SYNC_H

#include "shared/upstream/sticky_sessions.h"
#include "store/store.h"

struct sticky_sync;

/* While the configuration is read. Lines that have a zone in common have one of these. NULL after
 * conf_error. */
struct sticky_sync *sticky_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct zone *zone, struct sessions *sessions,
                                    const struct store_sync_words *words);

/* The key of a session: the same on all nodes whose stores have one password, and not known to
 * others. In a worker. */
void sticky_sync_key(struct sticky_sync *sync, struct str text, struct session_id *key);

/* sessions_look, for a node that does not know the session yet: the store is asked. MAY WAIT, for
 * the store's timeout at most. */
bool sticky_sync_look(struct sticky_sync *sync, const struct session_id *key,
                      struct session_id *peer);

/*
 * This peer has served the session, which begins, moves or continues. One that begins or moves is
 * in the store before this returns, unless the store is gone or the caller is on no fiber. MAY
 * WAIT, as above.
 */
void sticky_sync_put(struct sticky_sync *sync, const struct session_id *key,
                     const struct session_id *peer, uint64_t timeout_ms);

#endif
