/* The worker's memory against the bound that `degradation` names. */
#include "http/request/degraded.h"

#include "base/own_memory.h"
#include "http/request/request.h"

/* What was said in the log last, of this worker. */
static bool was_degraded;

bool request_is_degraded(const struct request *request)
{
    uint64_t bound = request->server->main->degraded_from;

    if (bound == 0) {
        return false;
    }
    uint64_t taken = own_memory();
    bool is_degraded = taken >= bound;
    if (is_degraded != was_degraded) {
        was_degraded = is_degraded;
        log_warn(&request->log, 0, "%s: the worker takes %llu bytes of memory, the limit is %llu",
                 is_degraded ? "degraded" : "degraded no more", (unsigned long long) taken,
                 (unsigned long long) bound);
    }
    return is_degraded;
}
