/* What the files of connections to peers share: link.c, connect.c, pool.c. */
#ifndef UPSTREAM_LINKS_LINKS_H
#define UPSTREAM_LINKS_LINKS_H

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

/* Is a connection of one kind as good as one of the other? */
bool link_kind_is(const struct link_kind *a, const struct link_kind *b);

/* The key of the request's slice, of which slice_keylen bytes count; empty: it has none. */
struct str pool_key(const struct upstream_pick *pick);
/* A copy from the heap, for links and pools. */
struct str pool_key_dup(struct str key);

/*
 * An idle link of this kind to the peer, sound as far as is known, off its pool; or NULL. options: is_unrepeatable, so that
 * a link will not do which the peer may be about to close. The one that is passed over then is closed: its place at the
 * peer becomes free before another is taken.
 */
struct upstream_link *pool_take(const struct upstream_group *group, struct peer_local *local,
                                const struct link_kind *kind, const struct link_options *options);

/* No idle link of this kind to the peer is good enough: they are closed. */
void pool_drop(const struct upstream_group *group, struct peer_local *local,
               const struct link_kind *kind);
/* The peer ended an idle link of so many milliseconds. */
void pool_note_end(struct peer_local *local, uint64_t rested_ms);

/* Puts it to rest. False: it may not rest, or the loop cannot watch it. */
bool pool_keep(struct upstream_link *link);

/* May it rest, as far as it and the limits of its group are concerned? */
bool link_may_rest(const struct upstream_link *link);
/* Puts it down: the loop watches it, until it ends or its time is up. False: the loop cannot. */
bool link_lay_down(struct upstream_link *link);
/* Can the idle one carry a request? Asks the socket only where the loop did not tell yet. */
bool link_is_sound(struct upstream_link *link);
/* One that rests, in a pool or of a tie, ends. */
void idle_close(struct upstream_link *link);

/* Closes one idle link to the peer, whatever its kind. False: there is none. */
bool pool_close_one(const struct upstream_group *group, const struct peer_local *local);

/* ---- ties.c ---- */

/* Of the tie, an idle link of this kind to the peer, off its rest; or NULL. */
struct upstream_link *tie_take(struct link_tie *tie, const struct peer_local *local,
                               const struct link_kind *kind);
/* Puts a link of a tie to rest. False: it may not. */
bool tie_keep(struct upstream_link *link);
/* It does not rest any more. */
void tie_rest_ends(struct upstream_link *link);
/* The link ends: it leaves its tie, if it has one. */
void tie_forget(struct upstream_link *link);
/* Closes the one that was idle longest, of all clients. False: there is none. */
bool tie_close_one(void);
/* Those that rest, of the group; only the ones that lead to the peer, unless local is NULL. */
void ties_close(const struct group_state *state, const struct peer_local *local);

#endif
