/* The module's own: what its files share. */
#ifndef HTTP_MODULES_STATUS_METRICS_METRICS_H
#define HTTP_MODULES_STATUS_METRICS_METRICS_H

#include "base/buf.h"
#include "http/request/request.h"

/* All numbers as text: OpenMetrics 1.0, or the older form of Prometheus (0.0.4). */
void metrics_write(struct buf *out, struct request *request, bool is_openmetrics);

/* All numbers as one document of JSON. */
void metrics_write_status(struct buf *out, struct request *request);

/* A page that shows the text of this very place, again and again. */
struct str metrics_page(void);

#endif
