/* The way of a request, from its head to its log line; the boxes are drawn in docs/architecture.md.
 */
#ifndef HTTP_REQUEST_ENGINE_H
#define HTTP_REQUEST_ENGINE_H

#include "fiber/fiber.h"
#include "http/request/request.h"

/* Runs the whole request on a fiber; called by the wire when the head is whole and request->server
 * is chosen. */
void request_start(struct request *request);
/*
 * Is there a place for another request of a connection that has so many at work? Those that have
 * none are served first (worker_requests). request_start answers with 503 where there is none.
 */
bool request_may_begin(uint32_t of_connection);
/* So many more (or fewer) answers are held that no fiber works on: they take places, too. */
void requests_held(int more);
/*
 * Another fiber for a request that is worked on: see fiber_start_joinable. FIBER_NO_STACK also
 * where the stacks that are left are those of requests to come.
 */
enum fiber_started request_fiber_start(void (*run)(void *), void *arg, struct fiber_handle *handle);
/*
 * After the head of its answer the bytes of its connection, which has no frames, go both ways
 * unread, and no fiber works on it: who carries them sets request->tunnel and returns HANDLER_DONE
 * from the handler. It hears what the loop tells of the connection, on the loop's stack.
 */
struct request_tunnel {
    void (*moves)(struct request *request); /* there is input, or output has drained, or it broke */
    void (*is_due)(struct request *request); /* its deadline has passed */
    void (*cancel)(struct request *request); /* it has to go: request_resume comes from inside */
};
/* The tunnel is over, request->tunnel is NULL again: what is left of the request's way is gone.
 * From the loop's stack. */
void request_resume(struct request *request);
/* The wire tells that all output was sent or lost: log phase, counters. Then the wire recycles the
 * request. */
void request_log(struct request *request);

/* The client is gone: cancels the fiber if it waits, or the tunnel, unless request->abort_watcher
 * wants to go on. */
void request_cancel(struct request *request);

/*
 * Passes, internal redirects and error pages, until the response is given. result: HANDLER_AGAIN,
 * where `restart` says, or how the request has failed already. MAY WAIT.
 */
enum handler_result request_respond(struct request *request, enum handler_result result);
/* Its log handlers alone. */
void request_log_handlers(struct request *request);

#endif
