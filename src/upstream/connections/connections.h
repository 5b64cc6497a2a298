/* What the files of connections to peers share: connection.c, connect.c, pool.c, pinned.c. */
#ifndef UPSTREAM_CONNECTIONS_CONNECTIONS_H
#define UPSTREAM_CONNECTIONS_CONNECTIONS_H

#include "upstream/private.h"

/* Closes the conn and frees the connection, which is in no list. */
void upstream_connection_destroy(struct upstream_connection *connection);

/* ---- connect.c ---- */

/*
 * A fresh connection to pick->peer that is up, counted in peer_use.open. MAY WAIT. *error gets the
 * errno; what went wrong was logged.
 */
enum upstream_connect_result upstream_connect(struct upstream_pick *pick,
                                              const struct upstream_connection_options *options,
                                              uint64_t deadline_ms, struct conn **out, int *error);

/* Which socket is to be opened; idle connections give way when descriptors ran out. -1 after a
 * message. */
int backend_socket_open(const struct addr *addr, bool is_datagram, const struct log *log);
/* Its options and address. False, with errno: the connection cannot be made; failures to tune it
 * are logged only. */
bool backend_socket_prepare(int fd, const struct upstream_connection_options *options,
                            const struct log *log);
/* May one more conn to a backend be made? False after a message. */
bool backend_conn_has_room(const struct log *log);
/* The connection was refused, by this errno; logged. */
enum upstream_connect_result backend_refused(const struct upstream_target *target, int error,
                                             bool is_at_once);
enum upstream_connect_result backend_timed_out(const struct upstream_target *target,
                                               const struct upstream_connection_options *options,
                                               int *error);

/* ---- quic.c ---- */

/* upstream_connection_reach by QUIC: conn->user is the struct quic_connection, which quic_hold
 * holds. */
enum upstream_connect_result quic_backend_reach(const struct upstream_target *target,
                                                const struct upstream_connection_options *options,
                                                uint64_t deadline_ms, struct conn **out,
                                                int *error);
void quic_backend_close(struct upstream_connection *connection);

/* ---- pool.c ---- */

/* Is a connection of one kind as good as one of the other? */
bool upstream_connection_kind_is(const struct upstream_connection_kind *a,
                                 const struct upstream_connection_kind *b);

/* The key of the request's slice, of which slice_keylen bytes count; empty: it has none. */
struct str pool_key(const struct upstream_pick *pick);
/* A copy from the heap, for connections and pools. */
struct str pool_key_dup(struct str key);

/*
 * An idle connection of this kind to the peer, sound as far as is known, off its pool; or NULL.
 * options: is_unrepeatable, so that a connection will not do which the peer may be about to close.
 * The one that is passed over then is closed: its place at the peer becomes free before another is
 * taken.
 */
struct upstream_connection *pool_take(const struct upstream_group *group, struct peer_local *local,
                                      const struct upstream_connection_kind *kind,
                                      const struct upstream_connection_options *options);

/* No idle connection of this kind to the peer is good enough: they are closed. */
void pool_drop(const struct upstream_group *group, struct peer_local *local,
               const struct upstream_connection_kind *kind);
/* The peer ended an idle connection of so many milliseconds. */
void pool_note_end(struct peer_local *local, uint64_t idle_ms);

/* It becomes idle, in its pool. False: it may not, or the loop cannot watch it. */
bool pool_keep(struct upstream_connection *connection);

/* It becomes idle: the loop watches it, until it ends or its time is up. False: its state or the
 * limits of its group forbid it, or the loop cannot watch it. */
bool upstream_connection_lay_down(struct upstream_connection *connection);
/* Can the idle one carry a request? Asks the socket only where the loop has not reported yet. */
bool upstream_connection_is_sound(struct upstream_connection *connection);
/* One that is idle, in a pool or pinned, ends. */
void idle_close(struct upstream_connection *connection);

/* Closes one idle connection to the peer, whatever its kind. False: there is none. */
bool pool_close_one(const struct upstream_group *group, const struct peer_local *local);

/* ---- pinned.c ---- */

/* Of the client's connections, an idle one of this kind to the peer, which is in use now; or NULL.
 */
struct upstream_connection *pinned_take(struct pinned_connections *pinned,
                                        const struct peer_local *local,
                                        const struct upstream_connection_kind *kind);
/* A pinned connection becomes idle. False: it may not. */
bool pinned_keep(struct upstream_connection *connection);
/* It is not idle any more. */
void pinned_idle_ends(struct upstream_connection *connection);
/* The connection ends: it is removed from its client's, if it is pinned. */
void pinned_forget(struct upstream_connection *connection);
/* Closes the one that was idle longest, of all clients. False: there is none. */
bool pinned_close_one(void);
/* Closes the idle ones of the group; only those that lead to the peer, unless local is NULL. */
void pinned_close(const struct group_state *state, const struct peer_local *local);

#endif
