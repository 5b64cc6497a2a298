/* The record of one request, as JSON. */
#ifndef HTTP_MODULES_STATUS_DEBUG_REQUEST_WAY_H
#define HTTP_MODULES_STATUS_DEBUG_REQUEST_WAY_H

#include "base/buf.h"
#include "http/request/request.h"

/* Records what happens to this main request from here on, in at most WAY_MOST bytes; with an id if
 * has_id. A second call does nothing. */
#define WAY_MOST (32 * 1024)
void way_begin(struct request *request, bool has_id);

/* Is the request recorded? */
bool way_is_kept(const struct request *request);
/* The id of a recorded request; empty: it has none. */
struct str way_id(const struct request *request);

/* Writes the whole record, one object without a newline, after the end of the request. */
void way_put(struct request *request, struct buf *out);

#endif
