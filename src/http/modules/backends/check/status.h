/* `check_status`: a page with the state of the checked peers. */
#ifndef HTTP_MODULES_BACKENDS_CHECK_STATUS_H
#define HTTP_MODULES_BACKENDS_CHECK_STATUS_H

#include "conf/directive.h"
#include "http/routing/settings.h"
#include "upstream/upstream.h"

struct request;

enum check_format { FORMAT_HTML, FORMAT_CSV, FORMAT_JSON, FORMAT_PROMETHEUS, FORMAT_NONE };

/* The format with this name, or FORMAT_NONE. */
enum check_format check_format_named(struct str name);

/* Responds with the page of this set; the arguments format= and status=up|down select the format
 * and the peers. */
enum handler_result check_status_answer(struct request *request, const struct upstream_set *set,
                                        enum check_format format);

#endif
