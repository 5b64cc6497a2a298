/* Guards: how often a client may do what costs more here than there. */
#include "base/clock.h"
#include "http/v2/v2.h"
#include "server/generation.h"

static const struct {
    uint32_t burst;
    uint32_t rate; /* a second */
    const char *text;
} limits[GUARD_COUNT] = {
#define V2_GUARD_ROW(id, burst, rate, text) [id] = {burst, rate, text},
    V2_GUARDS(V2_GUARD_ROW)
#undef V2_GUARD_ROW
};

void v2_guard_failed(struct v2_connection *c, const char *what)
{
    struct log log;

    if (c->is_failed) {
        return;
    }
    connection_log(c->connection, "processing HTTP/2 connection", &log);
    log_error(&log, 0, "client sent too many %s", what);
    counters_mine->limited++;
    v2_fail(c, V2_ENHANCE_YOUR_CALM, NULL);
}

bool v2_guard(struct v2_connection *c, enum v2_guard guard)
{
    uint32_t now_ms = (uint32_t) clock_now.now_ms;
    uint32_t forgiven =
        (uint32_t) ((uint64_t) (now_ms - c->guards[guard].since_ms) * limits[guard].rate / 1000);

    if (c->guards[guard].count == 0) {
        c->guards[guard].since_ms = now_ms;
    } else if (forgiven != 0) {
        v2_appease(c, guard, forgiven);
        c->guards[guard].since_ms = now_ms;
    }
    if (++c->guards[guard].count <= limits[guard].burst) {
        return true;
    }
    v2_guard_failed(c, limits[guard].text);
    return false;
}
