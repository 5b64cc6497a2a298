/* Sessions that clients resume by identifier, for code that passes them to other nodes. Implemented
 * in session.c. */
#ifndef NET_TLS_SESSIONS_H
#define NET_TLS_SESSIONS_H

#include "base/arena.h"
#include "base/shm.h"

/* Called by servers with this cache with the identifier of a session that began, was dropped or was
 * evicted. Does not wait. */
struct tls_session_sharing {
    void (*changed)(void *arg, struct str id);
    void *arg;
};

/* False: the zone has no memory for sessions. */
bool tls_sessions_prepare(struct zone *zone);
/* Gives a session as OpenSSL encodes it, in the arena; it expires in *left_s seconds. False: not
 * found. */
bool tls_sessions_get(struct zone *zone, struct str id, struct arena *arena, struct str *session,
                      uint64_t *left_s);
struct tls_session_given {
    struct str id;
    struct str session; /* as above */
    uint64_t left_s;
};
/* Stores another node's session. False: it is invalid, or there is no memory. */
bool tls_sessions_put(struct zone *zone, const struct tls_session_given *given,
                      const struct tls_session_sharing *sharing);
void tls_sessions_drop(struct zone *zone, struct str id);
/* Lists identifiers (struct str) of some sessions, in the arena; *cursor is 0 at first. False:
 * these were the last. */
bool tls_sessions_list(struct zone *zone, uint32_t *cursor, struct arena *arena, struct vec *ids);

#endif
