/* Guards: how often a client may do what costs more here than there, for protocols with frames.
 * Implemented in connection.c. */
#ifndef HTTP_CLIENT_GUARDS_H
#define HTTP_CLIENT_GUARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "http/client/connection.h"

/* At most `burst` at once, and `rate` a second after that. */
struct client_guard_limit {
    uint32_t burst;
    uint32_t rate;
    const char *text; /* what too many of are logged as */
};

/* What a connection has used of one of them. All zero: nothing. */
struct client_guard {
    uint32_t count;
    uint32_t since_ms;
};

/* A protocol has one list, X(id, burst, rate, "text"), for its enum and its table of limits. */
#define CLIENT_GUARD_ID(id, burst, rate, text) id,
#define CLIENT_GUARD_LIMIT(id, burst, rate, text) [id] = {burst, rate, text},

/* Counts one. False: that was one too many. */
bool client_guard_count(struct client_guard *guard, const struct client_guard_limit *limit);
/* Something good happened that weighs against `count` of them. */
static inline void client_guard_appease(struct client_guard *guard, uint32_t count)
{
    guard->count -= guard->count < count ? guard->count : count;
}
/* Logs "client sent too many …" and counts it in `limited`. Ends nothing. */
void client_guard_report(const struct http_connection *connection, const char *action,
                         const char *what);

#endif
