/* Is the worker short of memory, as the operator says? */
#ifndef HTTP_REQUEST_DEGRADED_H
#define HTTP_REQUEST_DEGRADED_H

#include <stdbool.h>

struct request;

/* Does this worker take as much memory as `degradation` names, or more? It is looked at once a
 * second; what changes is logged. */
bool request_is_degraded(const struct request *request);

#endif
