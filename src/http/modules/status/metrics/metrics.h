/* The module's own: what its files share. */
#ifndef HTTP_MODULES_STATUS_METRICS_METRICS_H
#define HTTP_MODULES_STATUS_METRICS_METRICS_H

#include "base/buf.h"
#include "http/request/request.h"

/* All numbers in one of the forms that Prometheus reads. */
struct metrics_form;
void metrics_write(struct buf *out, struct request *request, const struct metrics_form *form);

/* All numbers as one document of JSON. */
void metrics_write_status(struct buf *out, struct request *request);

#endif
