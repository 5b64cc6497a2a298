/* Sessions that clients resume by identifier, for code that gives them to other nodes. Implemented
 * in session.c. */
#ifndef NET_TLS_SESSIONS_H
#define NET_TLS_SESSIONS_H

#include "base/arena.h"
#include "base/shm.h"

/* What servers with this cache report: the identifier of a session that began, was dropped or made
 * room for another one. Does not wait. */
struct tls_session_sharing {
    void (*changed)(void *arg, struct str id);
    void *arg;
};

/* False: the zone has no room for sessions. */
bool tls_sessions_prepare(struct zone *zone);
/* A session as OpenSSL encodes it, in the arena; it ends in *left_s seconds. False: there is none.
 */
bool tls_sessions_get(struct zone *zone, struct str id, struct arena *arena, struct str *session,
                      uint64_t *left_s);
struct tls_session_given {
    struct str id;
    struct str session; /* as above */
    uint64_t left_s;
};
/* Another node's. False: it can be none, or there is no room. */
bool tls_sessions_put(struct zone *zone, const struct tls_session_given *given,
                      const struct tls_session_sharing *sharing);
void tls_sessions_drop(struct zone *zone, struct str id);
/* Identifiers (struct str) of some sessions, in the arena; *cursor is 0 at first. False: these were
 * the last. */
bool tls_sessions_list(struct zone *zone, uint32_t *cursor, struct arena *arena, struct vec *ids);

#endif
