/* The way of a request, from its head to its log line. Functions are named after the boxes in
 * docs/architecture.md. */
#include "http/request/engine.h"

#include <errno.h>

#include "http/request/body.h"
#include "http/request/request.h"

#include "base/clock.h"
#include "base/fatal.h"
#include "base/text.h"
#include "http/client/connection.h"
#include "http/request/wire.h"
#include "http/routing/hooks.h"
#include "http/request/subrequest.h"
#include "http/routing/response_settings.h"
#include "server/generation.h"

/* Somebody looks at the request: kept out of the way of all others. */
#define IS_TRACED(request) __builtin_expect((request)->trace != NULL, 0)

static __attribute__((cold, noinline)) enum handler_result ask_traced(struct request *request,
                                                                      request_handler run)
{
    uint64_t began_ns = clock_read_ns();
    enum handler_result result = run(request);

    for (struct request_trace *trace = request->trace; trace != NULL; trace = trace->next) {
        if (trace->calls->asked != NULL) {
            trace->calls->asked(trace, request, run, result, began_ns);
        }
    }
    return result;
}

static __attribute__((cold, noinline)) void trace_location(struct request *request)
{
    for (struct request_trace *trace = request->trace; trace != NULL; trace = trace->next) {
        if (trace->calls->located != NULL) {
            trace->calls->located(trace, request);
        }
    }
}

static inline enum handler_result ask_handler(struct request *request, request_handler run)
{
    return IS_TRACED(request) ? ask_traced(request, run) : run(request);
}

/* Asks handlers in turn until one has something to say. */
static enum handler_result ask_handlers(struct request *request,
                                        const struct handler_list *handlers)
{
    for (unsigned i = 0; i < handlers->count; i++) {
        enum handler_result result = ask_handler(request, handlers->items[i]);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    return HANDLER_NEXT;
}

/* Somebody else lets the client in: it was asked for credentials in vain. */
static void forget_refusal(struct request *request)
{
    struct fields *fields = &request->response.fields;

    request->response.status = 0;
    fields_set(fields, &request->arena, FIELD_WWW_AUTHENTICATE, STR_NONE);
    fields_set(fields, &request->arena, FIELD_PROXY_AUTHENTICATE, STR_NONE);
}

/* Access checkers under `satisfy`: all must agree, or one is enough. */
static enum handler_result check_access(struct request *request)
{
    const struct handler_list *checkers = &request->location->access;
    bool is_any = request->location->satisfy == SATISFY_ANY;
    unsigned refused = 0;

    if (request != request->main) {
        return HANDLER_NEXT;
    }
    for (unsigned i = 0; i < checkers->count; i++) {
        enum handler_result result = ask_handler(request, checkers->items[i]);
        if (result == HANDLER_NEXT) {
            continue;
        }
        if (result == HANDLER_ALLOW) {
            if (is_any) {
                forget_refusal(request);
                return HANDLER_NEXT;
            }
            continue;
        }
        unsigned status = request->response.status;
        if (!is_any || result != HANDLER_FAIL ||
            (status != 401 && status != 403 && status != 407)) {
            return result;
        }
        if (refused == 0 || refused == 403) {
            refused = status; /* a demand for credentials wins over a plain refusal */
        }
    }
    if (refused == 0) {
        return HANDLER_NEXT;
    }
    if (refused == 403) {
        log_error(&request->log, 0, "access forbidden by rule");
    }
    return request_fail(request, refused);
}

/* auth_delay: a refused password costs the client time, not the worker. MAY WAIT. */
static enum handler_result delay_refusal(struct request *request, enum handler_result result)
{
    uint64_t delay_ms = request->location->auth_delay_ms;

    unsigned status = request->response.status;

    if (delay_ms == 0 || result != HANDLER_FAIL || (status != 401 && status != 407)) {
        return result;
    }
    if (fiber_sleep(clock_now.now_ms + delay_ms) == WAIT_CANCELLED) {
        request->response.status = 0; /* nothing was sent */
        return HANDLER_CLOSED;
    }
    return result;
}

/* The handler that answers: the location's own handler, or, where there is none or it says that
 * this is not its affair, those that serve files. */
static enum handler_result produce_content(struct request *request)
{
    const struct http_location *answering = request->answering;

    if (answering == NULL) {
        log_error(&request->log, 0, "no upstream configured");
        return request_fail(request, 500);
    }
    enum handler_result result =
        answering->content.run != NULL ? answering->content.run(request) : HANDLER_NEXT;
    if (result != HANDLER_NEXT) {
        return result;
    }
    const struct http_location *location = request->location;
    if (request->uri.len != 0 && request->uri.data[request->uri.len - 1] == '/') {
        result = ask_handlers(request, &location->directory_handlers);
    }
    if (result == HANDLER_NEXT) {
        result = ask_handlers(request, &location->content_handlers);
    }
    return result == HANDLER_NEXT ? request->server->main->unanswered(request) : result;
}

static __attribute__((cold, noinline)) enum handler_result produce_traced(struct request *request)
{
    uint64_t began_ns = clock_read_ns();
    enum handler_result result = produce_content(request);

    for (struct request_trace *trace = request->trace; trace != NULL; trace = trace->next) {
        if (trace->calls->produced != NULL) {
            trace->calls->produced(trace, request, result, began_ns);
        }
    }
    return result;
}

/* Rewrite directives of the location; a changed URI searches a location again. */
static enum handler_result rewrite_location(struct request *request)
{
    enum handler_result result = ask_handlers(request, &request->location->rewrite);

    if (result == HANDLER_NEXT && request->uri_state == URI_MOVED) {
        request->uri_state = URI_KEPT;
        request->is_internal = true;
        if (!request_count_change(request, "rewrite")) {
            return HANDLER_FAIL;
        }
        request->restart = RESTART_LOCATION;
        return HANDLER_AGAIN;
    }
    return result;
}

/* What this place wants done before the content, in the order of phases. MAY WAIT. */
static enum handler_result run_steps(struct request *request)
{
    enum handler_result result = rewrite_location(request);

    if (result == HANDLER_NEXT) {
        result = ask_handlers(request, &request->location->preaccess);
    }
    if (result == HANDLER_NEXT) {
        result = delay_refusal(request, check_access(request));
    }
    if (result == HANDLER_NEXT) {
        result = ask_handlers(request, &request->location->precontent);
    }
    return result;
}

/* The URI and a slash are the name of a location that wants it: 301. */
static enum handler_result add_slash(struct request *request)
{
    const struct str parts[] = {escape_str(&request->arena, request->uri, ESCAPE_URI), STR("/"),
                                request->args.len != 0 ? STR("?") : STR_NONE, request->args};

    request->response.location = arena_join(&request->arena, parts, 4);
    return request_fail(request, 301);
}

/* One pass from where `restart` says to the content. HANDLER_NEXT: it is to be produced. MAY WAIT.
 */
static enum handler_result pass(struct request *request)
{
    enum handler_result result = HANDLER_NEXT;
    bool lacks_slash = false;

    switch (request->restart) {
    case RESTART_SERVER:
        request_set_location(request, request->server->root);
        if (request->server->rewrite.count != 0) {
            result = ask_handlers(request, &request->server->rewrite);
            if (request->uri_state == URI_MOVED) {
                request->is_internal = true;
                request->uri_state = URI_KEPT;
            }
            if (result != HANDLER_NEXT) {
                return result;
            }
        }
        /* fall through */
    case RESTART_LOCATION:
        request_set_location(request, location_find(request->server->root, request->uri,
                                                    &request->env, &lacks_slash));
        request->uri_state = URI_KEPT;
        if (IS_TRACED(request)) {
            trace_location(request);
        }
        if (request->location->is_internal && !request->is_internal) {
            return request_fail(request, 404);
        }
        if (lacks_slash) {
            return add_slash(request);
        }
        if (request->response.status != 0 && !request->is_post_action) {
            return HANDLER_FAIL;
        }
        /* fall through */
    case RESTART_NAMED:
        break;
    }
    const struct http_location *limited = request->location->limited;
    if (limited != NULL && (request->location->allowed_methods & request->method) == 0) {
        request_set_location(request, limited); /* its limit_except block rules this method */
    }
    request->answering = request->location;
    if (!request->incoming.is_read && !request->is_error_redirect &&
        request_body_exceeds(request)) {
        return HANDLER_FAIL;
    }
    if (request->location->has_steps) {
        result = run_steps(request);
    }
    return result;
}

enum handler_result request_respond(struct request *request, enum handler_result result)
{
    for (;;) {
        unsigned refusal = request->response.hold.refusal;
        if (refusal != 0 && request->response.progress == RESPONSE_NOT_SENT &&
            !request->is_cancelled) {
            request->response.hold.refusal = 0;
            result = request_fail(request, refusal);
        }
        if (result == HANDLER_DONE) {
            return result;
        }
        if (request->main->is_over_memory) {
            return HANDLER_CLOSED; /* request_run answers */
        }
        switch (result) {
        case HANDLER_AGAIN:
            result = pass(request);
            if (result == HANDLER_NEXT) {
                result = IS_TRACED(request) ? produce_traced(request) : produce_content(request);
            }
            break;
        case HANDLER_FAIL:
            if (request->response.progress != RESPONSE_NOT_SENT) {
                return HANDLER_CLOSED; /* too late for another answer: the connection ends */
            }
            result = request->response.status == 0 ? HANDLER_CLOSED : response_error(request);
            break;
        default:
            return result;
        }
    }
}

/* What this server passes on to itself without end is ended: one answer 508 for all who wait. */
static enum handler_result end_circle(struct request *request)
{
    counters_mine->limited++;
    log_error(
        &request->log, 0,
        "the request has passed through this server %u times: one of its backends is this server "
        "itself (max_self_hops)",
        connection_hops(request->connection));
    return request_fail(request, 508);
}

/* What comes before the first pass of a client's own request. HANDLER_AGAIN: nothing against it.
 * MAY WAIT. */
static enum handler_result receive_request(struct request *request)
{
    enum handler_result result = HANDLER_AGAIN;

    if (request->response.status != 0) {
        result = HANDLER_FAIL; /* refused by the parser */
    } else if (__builtin_expect(request->connection->hops_known != 1 /* none */, 0) &&
               connection_hops(request->connection) > request->server->max_self_hops) {
        result = end_circle(request);
    } else if (request->server->early_read.count != 0 &&
               templates_any_true(&request->server->early_read, &request->env)) {
        result = request_read_body(request);
        result = result == HANDLER_NEXT ? HANDLER_AGAIN : result;
    }
    if (result == HANDLER_AGAIN && request->server->main->post_read.count != 0) {
        result = ask_handlers(request, &request->server->main->post_read);
        result = result == HANDLER_NEXT ? HANDLER_AGAIN : result;
    }
    return result;
}

/* post_action: one more pass for the location's own sake, whose output nobody sees. $status and
 * what was sent are those of the response before. MAY WAIT. */
static void run_post_action(struct request *request)
{
    struct template *action = request->location->responses->post_action;
    struct str text = template_text(action, &request->env);
    enum handler_result result;

    request->is_post_action = true;
    request->response = (struct response){.content_length = -1,
                                          .last_modified = -1,
                                          .status = request->response.status};
    if (text.len != 0 && text.data[0] == '@') {
        result = request_redirect_named(request, text);
    } else {
        struct str uri = text;
        struct str args = STR_NONE;
        result = request_split_uri(request, text, &uri, &args)
                     ? request_redirect(request, uri, args)
                     : HANDLER_CLOSED;
    }
    while (result == HANDLER_AGAIN) {
        result = pass(request);
        result = result == HANDLER_NEXT ? produce_content(request) : result;
    }
}

/* ---- how many at one time ---- */

/* Requests of this worker that are worked on. */
static uint32_t at_work;

bool request_may_begin(uint32_t of_connection)
{
    uint32_t left = capacity.requests > at_work ? capacity.requests - at_work : 0;

    if (of_connection == 0) {
        return left != 0;
    }
    return left > capacity.reserve && of_connection < left - capacity.reserve;
}

void requests_held(int more)
{
    at_work += (uint32_t) more;
}

enum fiber_started request_fiber_start(void (*run)(void *), void *arg, struct fiber_handle *handle)
{
    if (capacity.requests != UINT32_MAX &&
        fiber_pool_left() <= (size_t) capacity.requests - at_work) {
        counters_mine->limited++;
        return FIBER_NO_STACK;
    }
    return fiber_start_joinable(run, arg, handle);
}

/* It took more memory than it may: the built-in page, where nothing was sent yet. Never waits. */
static enum handler_result end_over_memory(struct request *request, enum handler_result result)
{
    request->keepalive = false;
    if (request->response.progress != RESPONSE_NOT_SENT) {
        return result;
    }
    response_refuse(request, 500);
    return HANDLER_DONE;
}

/* A circle that was ended is not begun again by each request on the way back: two of each make
 * thousands. */
static bool wants_post_action(const struct request *request, enum handler_result result)
{
    return result != HANDLER_CLOSED && !request->is_over_memory &&
           (request->response.status != 508 || connection_hops(request->connection) == 0);
}

/* What follows once it was answered. MAY WAIT for a post_action. */
static void request_finish(struct request *request, enum handler_result result)
{
    if (result == HANDLER_DONE) {
        request->is_completed = true;
    }
    if (request->location->responses->post_action != NULL && wants_post_action(request, result)) {
        struct response given = request->response;
        request_flush(request); /* variables count what was sent */
        run_post_action(request);
        request->response = given;
    }
    if (result == HANDLER_DONE && request->keepalive && !request->incoming.is_read) {
        request_drop_body(request);
    }
    request->fiber = NULL;
    fiber_set_subject(NULL);
    at_work--;
    request->wire->ended(request, result);
}

/* The request's fiber. */
static void request_run(void *arg)
{
    struct request *request = arg;

    request->fiber = fiber_self();
    fiber_set_subject(&request->log);
    enum handler_result result = request_respond(request, receive_request(request));
    if (request->response.is_broken && result == HANDLER_DONE) {
        result = HANDLER_CLOSED; /* who gave the body did not look whether it was taken */
    } else if (request->response.lacks_end && result == HANDLER_DONE) {
        result = HANDLER_CUT;
    }
    if (request->subrequests_begun != NULL) {
        subrequests_end(request, result != HANDLER_DONE);
    }
    if (request->tunnel != NULL) {
        request->fiber = NULL;
        fiber_set_subject(NULL);
        at_work--;
        return;
    }
    if (request->is_over_memory) {
        result = end_over_memory(request, result);
    }
    request_finish(request, result);
}

static void run_rest(void *arg)
{
    struct request *request = arg;

    request->fiber = fiber_self();
    fiber_set_subject(&request->log);
    request_finish(request, HANDLER_DONE);
}

void request_resume(struct request *request)
{
    CHECK_MAGIC(request, REQUEST_MAGIC);
    if (request->fiber != NULL) {
        return; /* it still waits for its subrequests, and continues then */
    }
    at_work++;
    if (request->location->responses->post_action == NULL) {
        request_finish(request, HANDLER_DONE); /* nothing to wait for */
    } else if (fiber_start(run_rest, request, NULL) == FIBER_NO_STACK) {
        at_work--;
        log_crit(&request->log, 0, "no stack for a post_action");
        request->wire->ended(request, HANDLER_DONE);
    }
}

/* It is not worked on: nothing may wait here. */
static void turn_away(struct request *request, const char *reason)
{
    log_error(&request->log, 0, "%s", reason);
    counters_mine->limited++;
    response_refuse(request, 503);
    request->wire->ended(request, HANDLER_DONE);
}

void request_start(struct request *request)
{
    CHECK_MAGIC(request, REQUEST_MAGIC);
    counters_mine->requests++;
    request->received_ms = clock_now.now_ms;
    if (capacity.requests <= at_work) {
        turn_away(request, "worker_requests are not enough");
        return;
    }
    at_work++;
    if (fiber_start(request_run, request, NULL) == FIBER_NO_STACK) {
        at_work--;
        turn_away(request, "no stack for a request: too many wait at one time");
    }
}

void request_cancel(struct request *request)
{
    struct abort_watcher *watcher = request->abort_watcher;

    CHECK_MAGIC(request, REQUEST_MAGIC);
    if (watcher != NULL && !request->connection->is_aborted && watcher->goes_on(watcher)) {
        return;
    }
    request->is_cancelled = true;
    if (request->fiber != NULL) {
        fiber_cancel(request->fiber);
    } else if (request->tunnel != NULL) {
        request->tunnel->cancel(request);
    }
}

void request_log_handlers(struct request *request)
{
    const struct handler_list *handlers = &request->location->log;

    for (unsigned i = 0; i < handlers->count; i++) {
        handlers->items[i](request);
    }
}

void request_log(struct request *request)
{
    CHECK_MAGIC(request, REQUEST_MAGIC);
    request->log.action = "logging request";
    if (request->response.status == 0) {
        request->response.status =
            request->is_cancelled || request_has_lost_client(request) ? 499 : 444;
    }
    request_log_handlers(request);
    counters_mine->request_time_ms += clock_now.now_ms - request->start_ms;
}
