/* Sessions of `sticky learn`: the peer of each client's key, in a shared zone. */
#ifndef SHARED_UPSTREAM_STICKY_SESSIONS_H
#define SHARED_UPSTREAM_STICKY_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"

struct sessions;

/* A key, or the identity of a peer: MD5, so that all sessions have the same size. */
struct session_id {
    unsigned char md5[16];
};

/* The sessions of a zone, created if it has none yet; they use all of its memory. NULL: it is too
 * small. */
struct sessions *sessions_of(struct zone *zone);

/* The peer of a key, without renewing the session. False: there is none. Does not wait. */
bool sessions_look(struct sessions *sessions, const struct session_id *key,
                   struct session_id *peer);

/* The same, and renews the session: it ends after timeout_ms without use. */
bool sessions_find(struct sessions *sessions, const struct session_id *key, uint64_t timeout_ms,
                   struct session_id *peer);

/* Begins a session, or sets its peer. Replaces the least recently used session if the table is
   full. */
void sessions_put(struct sessions *sessions, const struct session_id *key,
                  const struct session_id *peer, uint64_t timeout_ms);

/* Sessions that are shared with other nodes (sticky_sync.h). */
#define SESSIONS_GIVEN_OFTEN 4 /* how often within its timeout a session in use is sent again */
struct sessions_change {
    bool is_new;       /* it is new, or has another peer than before */
    bool is_due;       /* it must be sent: it is new, or was sent long ago */
    bool is_displaced; /* it replaced another session, which others know and which had not ended */
    struct session_id displaced;
};
/* The same as sessions_put. */
struct sessions_change sessions_put_shared(struct sessions *sessions, const struct session_id *key,
                                           const struct session_id *peer, uint64_t timeout_ms);
/* The present state of a session, which is being sent. False: there is none. */
bool sessions_give(struct sessions *sessions, const struct session_id *key, struct session_id *peer,
                   uint64_t *left_ms);
/* Stores a session of another node. */
struct sessions_change sessions_take(struct sessions *sessions, const struct session_id *key,
                                     const struct session_id *peer, uint64_t left_ms);
/* Ends a session. */
void sessions_drop(struct sessions *sessions, const struct session_id *key);
/* Lists at most `most` keys of sessions that other nodes know, starting at *cursor, which is 0 at
 * first. False: these were the last. */
bool sessions_list(struct sessions *sessions, uint32_t *cursor, struct session_id *keys,
                   size_t most, size_t *count);

/* Number of sessions, including those that have ended and were not looked up since. */
uint32_t sessions_count(struct sessions *sessions);

#endif
