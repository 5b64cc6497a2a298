/* Shared by the files of the module. Implemented in families.c, page.c and status.c. */
#ifndef HTTP_MODULES_STATUS_METRICS_METRICS_H
#define HTTP_MODULES_STATUS_METRICS_METRICS_H

#include "base/buf.h"
#include "http/routing/settings.h"

struct request;

/* Writes all metrics in one of the forms (Prometheus and others). Uses memory of the arena. */
struct metrics_form;
void metrics_write(struct buf *out, struct arena *arena, struct conf *conf,
                   const struct metrics_form *form);

/* Writes all metrics as one JSON document. */
void metrics_write_status(struct buf *out, struct request *request);

/* A page that shows the metrics and the history, which it fetches from its own location. */
struct str metrics_page(void);
/* The page's Content-Security-Policy: its own script and style by their hashes, and requests to its
 * origin. */
struct str metrics_page_policy(void);

#endif
