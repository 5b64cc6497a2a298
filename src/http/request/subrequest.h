/* Subrequests: another location's answer inside, before or for the sake of a response. */
#ifndef HTTP_REQUEST_SUBREQUEST_H
#define HTTP_REQUEST_SUBREQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request/request.h"

struct request_body;

/* Subrequests inside each other, and of one request in all: more is a loop or an attack. */
#define SUBREQUEST_DEPTH_MAX 50
#define SUBREQUEST_COUNT_MAX 1000
/* Subrequests that run at one time: of one parent, and of one client's request in all. More wait
 * for those. */
#define SUBREQUEST_SIBLINGS_MAX 64
#define SUBREQUEST_AT_ONCE_MAX 128

/* Where its body goes. */
enum subrequest_output {
    SUBREQUEST_INLINE, /* into the parent's response, after `filter` */
    SUBREQUEST_MEMORY, /* to `body`, as much as memory_max or subrequest_output_buffer_size lets it
                        */
    SUBREQUEST_NONE,   /* nowhere: what is wanted is its head, or that it was asked */
};

/* What is asked, and what came of it. Lives until it was answered. */
struct subrequest {
    struct str uri;                /* path, normalised; or "@name" of a named location */
    struct str args;               /* without '?' */
    enum subrequest_output output; /* where its body goes */
    struct body_filter *filter; /* INLINE: the filter of the parent on whose behalf it runs: bytes
                                   go to the next one; NULL: to the parent's first filter */
    struct str method;          /* empty = GET (HEAD where the parent is HEAD) */
    bool passes_body;           /* the parent's body, once it was read, is the subrequest's, too */
    struct request_body
        *given;          /* a body of its own instead, with its length in the head; or NULL */
    bool own_variables;  /* what `set` and others gave the parent is not known to it, nor the other
                            way round */
    bool own_headers;    /* the fields that it changes are not the parent's, and without a body none
                            says that there is one */
    uint64_t memory_max; /* MEMORY: bytes at most; 0 = subrequest_output_buffer_size */
    /* Or NULL: `request` was made, and has not begun. It may not wait. */
    void (*prepare)(struct subrequest *sub);
    bool outlives_client; /* once the parent was answered it continues though the client leaves */
    /* Or NULL: called on its fiber, which MAY WAIT, when it has been answered. */
    void (*answered)(struct subrequest *sub);
    /* Or NULL: bytes of its body that wait where `filter` leads. */
    uint64_t (*backlog)(const struct subrequest *sub);

    /* Filled on the way. */
    struct request *request; /* lives as long as the main request: its response head may be read */
    struct str body;         /* MEMORY */
    bool is_cut;             /* MEMORY: there was more than the buffer holds */
};

/* Aims it at "path?args" of a configuration or a page; the path is decoded. False: it is unsafe
 * (".."); nothing was logged. */
bool subrequest_aim(struct request *parent, struct str text, struct subrequest *sub);

/*
 * Begins it, on a fiber of its own beside the caller's, which continues when that waits for the
 * first time. Its access phase is skipped, it is logged where log_subrequest says so. HANDLER_DONE:
 * it is on its way, or answered already, which `answered` tells; HANDLER_FAIL: too many or too deep
 * (logged), nothing ran; HANDLER_CLOSED: the client is gone. The parent's end waits for it. MAY
 * WAIT for others to end.
 */
enum handler_result subrequest_begin(struct request *parent, struct subrequest *sub);
/*
 * Waits until it was answered. HANDLER_DONE: sub->request->response.status says how it went, an
 * error page being an answer as any other; HANDLER_CUT: it was cut short; HANDLER_CLOSED: the
 * client is gone. MAY WAIT.
 */
enum handler_result subrequest_wait(struct subrequest *sub);
/* Both. */
enum handler_result subrequest_run(struct request *parent, struct subrequest *sub);
/* For the engine, where a request has subrequests that nobody waited for: waits for their end;
 * those of a request that was cut short are cancelled first. MAY WAIT. */
void subrequests_end(struct request *parent, bool is_cut);

#endif
