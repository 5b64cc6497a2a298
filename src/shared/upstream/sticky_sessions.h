/* Sessions of `sticky learn`: which peer a client's key belongs to, in a shared zone. */
#ifndef SHARED_UPSTREAM_STICKY_SESSIONS_H
#define SHARED_UPSTREAM_STICKY_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"

struct sessions;

/* A key, or what identifies a peer: MD5, so that a session has the same size whatever clients send.
 */
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

/* Sessions that other nodes know, too (sticky_sync.h). */
#define SESSIONS_GIVEN_OFTEN                                                                       \
    4 /* times within its timeout that a session in use is due for others */
struct sessions_change {
    bool is_new;       /* it began, or has another peer than before */
    bool is_due;       /* others are to get it: it is new, or they got it long ago */
    bool is_displaced; /* another one, which others know and had not ended, made room */
    struct session_id displaced;
};
/* sessions_put. */
struct sessions_change sessions_put_shared(struct sessions *sessions, const struct session_id *key,
                                           const struct session_id *peer, uint64_t timeout_ms);
/* What others get of a session now. False: there is none. */
bool sessions_give(struct sessions *sessions, const struct session_id *key, struct session_id *peer,
                   uint64_t *left_ms);
/* What another node gave. */
struct sessions_change sessions_take(struct sessions *sessions, const struct session_id *key,
                                     const struct session_id *peer, uint64_t left_ms);
/* It ends now. */
void sessions_drop(struct sessions *sessions, const struct session_id *key);
/* Keys of those that others know, at most `most`, from *cursor on, which is 0 at first. False:
 * these were the last. */
bool sessions_list(struct sessions *sessions, uint32_t *cursor, struct session_id *keys,
                   size_t most, size_t *count);

/* Sessions now, those included that ended and were not asked for since. */
uint32_t sessions_count(struct sessions *sessions);

#endif
