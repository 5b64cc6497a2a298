/* The module's own: what its files share.
 * Implemented in families.c, page.c and status.c. */
#ifndef HTTP_MODULES_STATUS_METRICS_METRICS_H
#define HTTP_MODULES_STATUS_METRICS_METRICS_H

#include "base/buf.h"
#include "http/request/request.h"

/* All numbers in one of the forms that Prometheus reads, or another. Memory from the arena. */
struct metrics_form;
void metrics_write(struct buf *out, struct arena *arena, struct conf *conf,
                   const struct metrics_form *form);

/* All numbers as one document of JSON. */
void metrics_write_status(struct buf *out, struct request *request);

/* A page that shows the text and the history of the location that it comes from. */
struct str metrics_page(void);
/* Its Content-Security-Policy: its own script and style by their hashes, and requests to its
 * origin. */
struct str metrics_page_policy(void);

#endif
