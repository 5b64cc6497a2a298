/* Subrequests: another place's answer inside, before or for the sake of a response. */
#ifndef HTTP_SUBREQUEST_H
#define HTTP_SUBREQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request.h"

/* Subrequests inside each other, and of one request in all: more is a loop or an attack. */
#define SUBREQUEST_DEPTH_MAX 50
#define SUBREQUEST_COUNT_MAX 1000

/* Where its body goes. */
enum subrequest_output {
    SUBREQUEST_INLINE, /* into the parent's response, behind `filter` */
    SUBREQUEST_MEMORY, /* to `body`, as much as subrequest_output_buffer_size lets it */
};

/* What is asked, and what came of it. */
struct subrequest {
    struct str uri;                /* path, normalised; or "@name" of a named location */
    struct str args;               /* without '?' */
    enum subrequest_output output; /* where its body goes */
    struct body_filter
        *filter;       /* INLINE: the filter of the parent on whose behalf it runs: bytes go to
                                     the next one; NULL: to the parent's first filter */
    struct str method; /* empty = GET (HEAD where the parent is HEAD) */
    bool passes_body;  /* the parent's body, once it was read, is the subrequest's, too */

    /* Filled by subrequest_run. */
    struct request *request; /* lives as long as the main request: its response head may be read */
    struct str body;         /* MEMORY */
    bool is_cut;             /* MEMORY: there was more than the buffer holds */
};

/*
 * Runs it to its end. Its access phase is skipped, it is logged where log_subrequest says so. FLOW_DONE:
 * sub->request->response.status says how it went, an error page being an answer as any other;
 * FLOW_CUT: it was cut short; FLOW_CLOSED: the client is gone; FLOW_FAIL: too many or too deep (logged),
 * nothing ran. It runs on a fiber of its own, for whose end the caller's waits. MAY WAIT.
 */
enum flow subrequest_run(struct request *parent, struct subrequest *sub);

#endif
