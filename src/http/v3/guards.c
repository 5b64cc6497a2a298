/* Connections that fail, and guards: how often a client may do what costs more here than there. */
#include "base/clock.h"
#include "http/v3/v3.h"
#include "server/generation.h"

static const struct {
    uint32_t burst;
    uint32_t rate; /* a second */
    const char *text;
} limits[V3_GUARD_COUNT] = {
#define V3_GUARD_ROW(id, burst, rate, text) [id] = {burst, rate, text},
    V3_GUARDS(V3_GUARD_ROW)
#undef V3_GUARD_ROW
};

void v3_fail(struct v3_connection *c, uint64_t error, const char *reason)
{
    struct log log;

    if (c->is_failed || c->is_closed) {
        return;
    }
    if (reason != NULL) {
        connection_log(c->connection, V3_ACTION, &log);
        log_info(&log, 0, "client %s", reason);
    }
    c->is_failed = true;
    c->is_going_away = true;
    c->connection->is_last = true;
    /* What is said before it leaves first, in this turn. */
    c->error = error;
    c->reason = reason;
    loop_defer_next(&c->connection->settle);
}

void v3_guard_failed(struct v3_connection *c, const char *what)
{
    struct log log;

    if (c->is_failed) {
        return;
    }
    connection_log(c->connection, V3_ACTION, &log);
    log_error(&log, 0, "client sent too many %s", what);
    counters_mine->limited++;
    v3_fail(c, H3_EXCESSIVE_LOAD, NULL);
}

bool v3_guard(struct v3_connection *c, enum v3_guard guard)
{
    uint32_t now_ms = (uint32_t) clock_now.now_ms;
    uint32_t count = c->guards[guard].count;
    uint64_t forgiven = (uint64_t) (now_ms - c->guards[guard].since_ms) * limits[guard].rate / 1000;

    if (count == 0) {
        c->guards[guard].since_ms = now_ms;
    } else if (forgiven != 0) {
        c->guards[guard].count -= count < forgiven ? count : (uint32_t) forgiven;
        c->guards[guard].since_ms = now_ms;
    }
    if (++c->guards[guard].count <= limits[guard].burst) {
        return true;
    }
    v3_guard_failed(c, limits[guard].text);
    return false;
}
