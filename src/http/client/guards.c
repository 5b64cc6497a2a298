/* Guards: how often a client may do what costs more here than there. */
#include "http/client/guards.h"

#include "base/clock.h"
#include "server/generation.h"

bool client_guard_count(struct client_guard *guard, const struct client_guard_limit *limit)
{
    uint32_t now_ms = (uint32_t) clock_now.now_ms;
    uint64_t forgiven = (uint64_t) (now_ms - guard->since_ms) * limit->rate / 1000;

    if (guard->count == 0) {
        guard->since_ms = now_ms;
    } else if (forgiven != 0) {
        guard->count -= guard->count < forgiven ? guard->count : (uint32_t) forgiven;
        guard->since_ms = now_ms;
    }
    return ++guard->count <= limit->burst;
}

void client_guard_report(const struct http_connection *connection, const char *action,
                         const char *what)
{
    struct log log;

    connection_log(connection, action, &log);
    log_error(&log, 0, "client sent too many %s", what);
    counters_mine->limited++;
}
