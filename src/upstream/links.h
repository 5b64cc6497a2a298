/* What the files of connections to peers share: link.c, connect.c, pool.c. */
#ifndef UPSTREAM_LINKS_H
#define UPSTREAM_LINKS_H

#include "upstream/private.h"

/* Closes the connection and frees the link, which is in no list. */
void link_destroy(struct upstream_link *link);

/* ---- connect.c ---- */

/*
 * A fresh connection to pick->peer that is up, counted in peer_use.open. MAY WAIT. *error gets the
 * errno; what went wrong was logged.
 */
enum link_result link_connect(struct upstream_pick *pick, const struct link_options *options,
                              uint64_t deadline_ms, struct conn **out, int *error);

/* ---- pool.c ---- */

static inline bool link_kind_is(const struct link_kind *a, const struct link_kind *b)
{
    return a->tag == b->tag && a->identity == b->identity && str_equal(a->key, b->key);
}

/* The key of the request's slice; empty: it has none. False: it is longer than keys may be. */
bool pool_key(const struct upstream_pick *pick, struct str *key);
/* A copy from the heap, for links and pools. */
struct str pool_key_dup(struct str key);

/* An idle link of this kind to the peer, sound as far as is known, off its pool; or NULL. */
struct upstream_link *pool_take(const struct upstream_group *group, struct peer_local *local,
                                const struct link_kind *kind);

/* Puts it to rest. False: it may not rest, or the loop cannot watch it. */
bool pool_keep(struct upstream_link *link);

/* Closes one idle link to the peer, whatever its kind. False: there is none. */
bool pool_close_one(const struct upstream_group *group, const struct peer_local *local);

#endif
