/* `sticky learn` with `sync`: sessions that all nodes share. Implemented in sticky_sync.c. */
#ifndef SHARED_UPSTREAM_STICKY_SYNC_H
#define SHARED_UPSTREAM_STICKY_SYNC_H

#include "shared/upstream/sticky_sessions.h"
#include "store/store.h"

struct sticky_sync;

/* While the configuration is read. Directives with the same zone get the same result. NULL after
 * conf_error. */
struct sticky_sync *sticky_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct zone *zone, struct sessions *sessions,
                                    const struct store_sync_words *words);

/* The key of a session: the same on all nodes whose stores have the same password, and not known to
 * others. In a worker. */
void sticky_sync_key(struct sticky_sync *sync, struct str text, struct session_id *key);

/* The same as sessions_look, for a session that this node does not know: reads it from the store.
 * MAY WAIT, at most for the store's timeout. */
bool sticky_sync_look(struct sticky_sync *sync, const struct session_id *key,
                      struct session_id *peer);

/*
 * This peer has served the session, which begins, moves or continues. If it begins or moves, it is
 * in the store before this returns, unless the store is down or the caller is not on a fiber. MAY
 * WAIT, as above.
 */
void sticky_sync_put(struct sticky_sync *sync, const struct session_id *key,
                     const struct session_id *peer, uint64_t timeout_ms);

#endif
