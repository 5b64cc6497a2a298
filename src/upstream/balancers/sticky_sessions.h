/* Sessions of `sticky learn`: which peer a client's key belongs to, in a shared zone. */
#ifndef UPSTREAM_STICKY_SESSIONS_H
#define UPSTREAM_STICKY_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"

struct sessions;

/* A key, or what identifies a peer: MD5, so that a session has the same size whatever clients send. */
struct session_id {
    unsigned char md5[16];
};

/* The sessions of a zone, made when it has none yet; they take all of its memory. NULL: it is too
 * small. */
struct sessions *sessions_of(struct zone *zone);

/* The peer of a key, whose session stays as old as it is. False: there is none. Does not wait. */
bool sessions_look(struct sessions *sessions, const struct session_id *key,
                   struct session_id *peer);

/* The same, and the session is renewed: it ends when it was not used for timeout_ms. */
bool sessions_find(struct sessions *sessions, const struct session_id *key, uint64_t timeout_ms,
                   struct session_id *peer);

/* Begins a session, or gives it another peer. The session that was not used longest makes room. */
void sessions_put(struct sessions *sessions, const struct session_id *key,
                  const struct session_id *peer, uint64_t timeout_ms);

/* Sessions now, those included that ended and were not asked for since. */
uint32_t sessions_count(struct sessions *sessions);

#endif
