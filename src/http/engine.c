/* The way of a request, from its head to its log line. Functions are named after the boxes in
 * docs/architecture.md. */
#include "http/request.h"

#include "base/clock.h"
#include "http/connection.h"
#include "http/hooks.h"
#include "http/subrequest.h"
#include "server/capacity.h"
#include "server/generation.h"

/* Asks handlers in turn until one has something to say. */
static enum flow ask(struct request *request, const struct handler_list *handlers)
{
    for (unsigned i = 0; i < handlers->count; i++) {
        enum flow flow = handlers->items[i](request);
        if (flow != FLOW_NEXT) {
            return flow;
        }
    }
    return FLOW_NEXT;
}

/* Access checkers under `satisfy`: all must agree, or one is enough (phases-and-order.md, 3). */
static enum flow check_access(struct request *request)
{
    const struct handler_list *checkers = &request->location->access;
    bool is_any = request->location->satisfy == SATISFY_ANY;
    unsigned refused = 0;

    if (request != request->main) {
        return FLOW_NEXT;
    }
    for (unsigned i = 0; i < checkers->count; i++) {
        enum flow flow = checkers->items[i](request);
        if (flow == FLOW_NEXT) {
            continue;
        }
        if (flow == FLOW_ALLOW) {
            if (is_any) {
                return FLOW_NEXT;
            }
            continue;
        }
        unsigned status = request->response.status;
        if (!is_any || flow != FLOW_FAIL || (status != 401 && status != 403 && status != 407)) {
            return flow;
        }
        if (refused == 0 || refused == 403) {
            refused = status; /* a demand for credentials wins over a plain refusal */
        }
    }
    if (refused == 0) {
        return FLOW_NEXT;
    }
    if (refused == 403) {
        log_error(&request->log, 0, "access forbidden by rule");
    }
    return request_fail(request, refused);
}

/* auth_delay: a refused password costs the client time, not the worker. MAY WAIT. */
static enum flow delay_refusal(struct request *request, enum flow flow)
{
    uint64_t delay_ms = request->location->auth_delay_ms;

    if (flow != FLOW_FAIL || request->response.status != 401 || delay_ms == 0) {
        return flow;
    }
    enum wait_result result = fiber_sleep(clock_now.now_ms + delay_ms);
    return result == WAIT_CANCELLED ? FLOW_CLOSED : flow;
}

/* Is the method let through to this place, or does its limit_except block rule? */
static void apply_limit_except(struct request *request)
{
    const struct http_location *limited = request->location->limited;

    if (limited != NULL && (request->location->allowed_methods & request->method) == 0) {
        request_set_location(request, limited);
    }
}

/* A location marked internal answers 404 to what comes from outside. */
static bool is_hidden(const struct request *request)
{
    return request->location->is_internal && !request->is_internal;
}

/* Who answers: the location's own handler, or those that serve files. */
static enum flow produce_content(struct request *request)
{
    const struct http_location *answering = request->answering;

    if (answering == NULL) {
        log_error(&request->log, 0, "no upstream configured");
        return request_fail(request, 500);
    }
    if (answering->handler != NULL) {
        return answering->handler(request);
    }
    enum flow flow = ask(request, &request->location->server->main->content);
    if (flow != FLOW_NEXT) {
        return flow;
    }
    if (request->uri.len != 0 && request->uri.data[request->uri.len - 1] == '/') {
        struct str path;
        size_t root_length;
        if (request_map_path(request, &path, &root_length)) {
            log_error(&request->log, 0, "directory index of \"%.*s\" is forbidden", STR_ARG(path));
        }
        return request_fail(request, 403);
    }
    log_error(&request->log, 0, "no handler found");
    return request_fail(request, 404);
}

/* Rewrite directives of the location; a changed URI searches a location again. */
static enum flow rewrite_location(struct request *request)
{
    enum flow flow = ask(request, &request->location->rewrite);

    if (flow == FLOW_NEXT && request->uri_changed) {
        request->uri_changed = false;
        request->is_internal = true;
        if (!request_count_change(request, "rewrite")) {
            return FLOW_FAIL;
        }
        request->restart = RESTART_LOCATION;
        return FLOW_AGAIN;
    }
    return flow;
}

/* What this place wants done, in the order of phases, and at last the content. */
static enum flow serve_location(struct request *request)
{
    apply_limit_except(request);
    request->answering = request->location;
    if (!request->is_body_read && !request->is_error_redirect && request_body_exceeds(request)) {
        return FLOW_FAIL;
    }
    if (!request->location->has_steps) {
        return produce_content(request);
    }
    enum flow flow = rewrite_location(request);
    if (flow == FLOW_NEXT) {
        flow = ask(request, &request->location->preaccess);
    }
    if (flow == FLOW_NEXT) {
        flow = delay_refusal(request, check_access(request));
    }
    if (flow == FLOW_NEXT) {
        flow = ask(request, &request->location->precontent);
    }
    return flow == FLOW_NEXT ? produce_content(request) : flow;
}

/* One pass from where `restart` says to the content. */
static enum flow pass(struct request *request)
{
    enum flow flow;

    switch (request->restart) {
    case RESTART_SERVER:
        request_set_location(request, request->server->root);
        flow = ask(request, &request->server->rewrite);
        request->is_internal |= request->uri_changed;
        request->uri_changed = false;
        if (flow != FLOW_NEXT) {
            return flow;
        }
        /* fall through */
    case RESTART_LOCATION:
        location_find(request);
        if (is_hidden(request)) {
            return request_fail(request, 404);
        }
        if (request->response.status != 0) {
            return FLOW_FAIL;
        }
        /* fall through */
    case RESTART_NAMED:
        break;
    }
    return serve_location(request);
}

/* Passes, internal redirects and error pages, until the response is given. */
static enum flow pass_until_answered(struct request *request, enum flow flow)
{
    for (;;) {
        if (request->main->is_over_memory && flow != FLOW_DONE) {
            return FLOW_CLOSED; /* request_run answers */
        }
        switch (flow) {
        case FLOW_AGAIN:
            flow = pass(request);
            break;
        case FLOW_FAIL:
            if (request->response.is_head_sent) {
                return FLOW_CLOSED; /* too late for another answer: the connection ends */
            }
            flow = request->response.status == 0 ? FLOW_CLOSED : response_error(request);
            break;
        default:
            return flow;
        }
    }
}

enum flow request_answer(struct request *request)
{
    return pass_until_answered(request, FLOW_AGAIN);
}

/* What this server passes on to itself without end is ended: one answer 508 for all who wait. */
static enum flow end_circle(struct request *request)
{
    counters_mine->limited++;
    log_error(&request->log, 0,
              "the request came round %u times: a backend that it is passed on to is this server "
              "itself (max_self_hops)",
              connection_hops(request->http));
    return request_fail(request, 508);
}

/* The client's own request: what comes before the first pass, too. */
static enum flow answer(struct request *request)
{
    enum flow flow = FLOW_AGAIN;

    if (request->response.status != 0) {
        flow = FLOW_FAIL; /* refused by the parser */
    } else if (__builtin_expect(connection_hops(request->http) > request->server->max_self_hops,
                                0)) {
        flow = end_circle(request);
    } else if (request->server->early_read.count != 0 &&
               templates_any_true(&request->server->early_read, &request->env)) {
        flow = request_read_body(request);
        flow = flow == FLOW_NEXT ? FLOW_AGAIN : flow;
    }
    if (flow == FLOW_AGAIN && request->server->main->post_read.count != 0) {
        flow = ask(request, &request->server->main->post_read);
        flow = flow == FLOW_NEXT ? FLOW_AGAIN : flow;
    }
    return pass_until_answered(request, flow);
}

/* post_action: one more pass for the location's own sake, whose output nobody sees. MAY WAIT. */
static void run_post_action(struct request *request)
{
    struct template *action = request->location->post_action;
    struct str text = template_text(action, &request->env);
    enum flow flow;

    request->is_post_action = true;
    request_become_get(request);
    request->response = (struct response){.content_length = -1, .last_modified = -1, .status = 0};
    if (text.len != 0 && text.data[0] == '@') {
        flow = request_redirect_named(request, text);
    } else {
        struct str uri = text;
        struct str args = STR_NONE;
        flow = request_split_uri(request, text, &uri, &args) ? request_redirect(request, uri, args)
                                                             : FLOW_CLOSED;
    }
    while (flow == FLOW_AGAIN) {
        flow = pass(request);
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
static enum flow end_over_memory(struct request *request, enum flow flow)
{
    request->keepalive = false;
    if (request->response.is_head_sent) {
        return flow;
    }
    response_refuse(request, 500);
    return FLOW_DONE;
}

/* A circle that was ended is not begun again by each request on the way back: two of each make thousands. */
static bool wants_post_action(const struct request *request, enum flow flow)
{
    return request->location->post_action != NULL && flow != FLOW_CLOSED &&
           !request->is_over_memory &&
           (request->response.status != 508 || connection_hops(request->http) == 0);
}

/* The request's fiber. */
static void request_run(void *arg)
{
    struct request *request = arg;

    request->fiber = fiber_self();
    fiber_set_subject(&request->log);
    enum flow flow = answer(request);
    if (request->subrequests_begun != NULL) {
        subrequests_end(request, flow != FLOW_DONE);
    }
    if (request->is_over_memory) {
        flow = end_over_memory(request, flow);
    }
    if (flow == FLOW_DONE) {
        request->is_completed = true;
    }
    if (wants_post_action(request, flow)) {
        struct response given = request->response;
        run_post_action(request);
        request->response = given;
    }
    if (flow == FLOW_DONE && request->keepalive && !request->is_body_read) {
        request_drop_body(request);
    }
    request->fiber = NULL;
    fiber_set_subject(NULL);
    at_work--;
    request->wire->ended(request, flow);
}

/* It is not worked on: nothing may wait here. */
static void turn_away(struct request *request, const char *reason)
{
    log_error(&request->log, 0, "%s", reason);
    counters_mine->limited++;
    response_refuse(request, 503);
    request->wire->ended(request, FLOW_DONE);
}

void request_start(struct request *request)
{
    counters_mine->requests++;
    request->received_ms = clock_now.now_ms;
    if (!request_may_begin(0)) {
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
    request->is_cancelled = true;
    if (request->fiber != NULL) {
        fiber_cancel(request->fiber);
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
    request->log.action = "logging request";
    if (request->response.status == 0) {
        request->response.status = request->is_cancelled || request->conn->is_broken ? 499 : 444;
    }
    request_log_handlers(request);
    counters_mine->request_time_ms += clock_now.now_ms - request->start_ms;
}
