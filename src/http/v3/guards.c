/* Connections that fail, and guards: how often a client may do what costs more here than there. */
#include "http/v3/v3.h"

static const struct client_guard_limit limits[V3_GUARD_COUNT] = {V3_GUARDS(CLIENT_GUARD_LIMIT)};

void v3_fail(struct v3_connection *c, uint64_t error, const char *reason)
{
    struct log log;

    if (c->phase >= V3_FAILED) {
        return;
    }
    if (reason != NULL) {
        connection_log(c->connection, V3_ACTION, &log);
        log_info(&log, 0, "client %s", reason);
    }
    c->phase = V3_FAILED;
    c->connection->is_last = true;
    /* What is said before it leaves first, in this turn. */
    c->error = (uint32_t) error;
    c->reason = reason;
    loop_defer_next(&c->connection->settle);
}

void v3_guard_failed(struct v3_connection *c, const char *what)
{
    if (c->phase >= V3_FAILED) {
        return;
    }
    client_guard_report(c->connection, V3_ACTION, what);
    v3_fail(c, H3_EXCESSIVE_LOAD, NULL);
}

bool v3_guard(struct v3_connection *c, enum v3_guard guard)
{
    if (client_guard_count(&c->guards[guard], &limits[guard])) {
        return true;
    }
    v3_guard_failed(c, limits[guard].text);
    return false;
}
