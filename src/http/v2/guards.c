/* Guards: how often a client may do what costs more here than there. */
#include "http/v2/v2.h"

static const struct client_guard_limit limits[GUARD_COUNT] = {V2_GUARDS(CLIENT_GUARD_LIMIT)};

void v2_guard_failed(struct v2_connection *c, const char *what)
{
    if (c->is_failed) {
        return;
    }
    client_guard_report(c->connection, "processing HTTP/2 connection", what);
    v2_fail(c, V2_ENHANCE_YOUR_CALM, NULL);
}

bool v2_guard(struct v2_connection *c, enum v2_guard guard)
{
    if (client_guard_count(&c->guards[guard], &limits[guard])) {
        return true;
    }
    v2_guard_failed(c, limits[guard].text);
    return false;
}
