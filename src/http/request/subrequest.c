/* Subrequests: requests without a head of their own on the wire, on fibers beside their parent's.
 */
#include "http/request/subrequest.h"
#include "http/request/body.h"
#include "http/request/body_filter.h"
#include "http/request/engine.h"
#include "http/request/wire.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/message/uri.h"
#include "http/routing/response_settings.h"

/* Of a subrequest; what its wire_state points to, in its arena. */
struct sub_state {
    struct subrequest *sub; /* until it was answered */
    struct request *child;
    struct buf body;            /* MEMORY: so far */
    enum handler_result result; /* of request_respond */
    bool is_answered;
    bool outlives_client;       /* as its struct subrequest said */
    struct wait_point answered; /* the parent */
    struct fiber_handle handle;
    struct list node; /* among the parent's that have not been joined */
};

/* Those of one parent; in its arena. */
struct subrequests {
    struct list all;     /* struct sub_state that were not joined */
    unsigned running;    /* of them */
    struct list waiters; /* struct waiter: for one to end */
};

/* On the frame of who begins one more: the parent, or a child that sends what the parent adds. */
struct waiter {
    struct list node;
    struct wait_point point;
};

/* ---- the wire that is none ---- */

static void sub_send_head(struct request *request)
{
    request->response.progress = RESPONSE_HEAD_SENT;
}

/* Bytes of a file piece are wanted in memory. */
static bool append_piece(struct request *request, struct sub_state *state,
                         const struct body_piece *piece)
{
    uint64_t limit = state->sub->memory_max != 0
                         ? state->sub->memory_max
                         : request->location->responses->subrequest_output_buffer_size;
    size_t room = state->body.len < limit ? (size_t) limit - state->body.len : 0;
    struct str bytes = piece->bytes;

    if (bytes.len > room && state->sub->memory_max == 0) {
        counters_mine->limited++;
        if (request->log.action == NULL && request->answering != NULL &&
            request->answering->content.run == NULL) {
            request->log.action = "sending response to client"; /* of a file, as nginx has it */
        }
        log_error(&request->log, 0, "too big subrequest response: %zu",
                  state->body.len + bytes.len);
        return false; /* the request fails with it, as with nginx */
    }
    if (bytes.len > room) {
        if (!state->sub->is_cut) {
            counters_mine->limited++;
            log_error(&request->log, 0, "too big subrequest response");
        }
        state->sub->is_cut = true;
        bytes = str_head(bytes, room);
    }
    buf_append(&state->body, bytes);
    return true;
}

static bool sub_send_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct sub_state *state = request->wire_state;
    struct subrequest *sub = state->sub;
    bool is_sound = true;

    if (is_last) {
        request->response.progress = RESPONSE_COMPLETE;
    }
    if (piece == NULL) {
        return true;
    }
    if (sub == NULL) { /* it has been answered: nobody wants more */
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
        return true;
    }
    if (sub->output == SUBREQUEST_INLINE) {
        if (sub->filter != NULL) {
            return body_filter_next(sub->filter, request->parent, piece, false);
        }
        request->parent->response.is_of_subrequest = true;
        is_sound = response_send(request->parent, piece, false);
        request->parent->response.is_of_subrequest = false;
        return is_sound;
    }
    if (sub->output == SUBREQUEST_MEMORY && piece->bytes.data != NULL) {
        is_sound = append_piece(request, state, piece);
    }
    if (piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

static void sub_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
}

static ssize_t sub_read_body(struct request *request, void *at, size_t size)
{
    request->incoming.is_read = true;
    return 0;
}

static void sub_ended(struct request *request, enum handler_result result)
{
}

/* What goes into the parent's response is taken as that is, when its turn has come. */
static uint64_t sub_backlog(const struct request *request, uint64_t more)
{
    const struct sub_state *state = request->wire_state;
    const struct subrequest *sub = state->sub;
    uint64_t waiting = sub != NULL && sub->backlog != NULL ? sub->backlog(sub) : 0;
    uint64_t of_main = request->main->wire->backlog(request->main, more);

    return of_main < UINT64_MAX - waiting ? of_main + waiting : UINT64_MAX;
}

/* The rest of the story is its fiber's alone. */
static void sub_answered(struct request *request)
{
    struct sub_state *state = request->wire_state;
    struct subrequest *sub = state->sub;

    if (state->is_answered) {
        return;
    }
    for (struct request_trace *trace = request->trace; trace != NULL; trace = trace->next) {
        if (trace->calls->ended != NULL) {
            trace->calls->ended(trace, request);
        }
    }
    if (sub->output == SUBREQUEST_MEMORY) {
        arena_allow(&request->main->arena, state->body.len);
        sub->body = arena_dup(&request->main->arena, buf_str(&state->body));
    }
    buf_free(&state->body);
    if (sub->answered != NULL) {
        sub->answered(sub);
    }
    state->sub = NULL;
    state->is_answered = true;
    wait_signal_later(&state->answered);
}

static const struct http_wire sub_wire = {
    .send_head = sub_send_head,
    .send_body = sub_send_body,
    .send_interim = sub_send_interim,
    .read_body = sub_read_body,
    .ended = sub_ended,
    .backlog = sub_backlog,
    .answered = sub_answered,
};

/* ---- running ---- */

bool subrequest_aim(struct request *parent, struct str text, struct subrequest *sub)
{
    const char *question = str_find_char(text, '?');
    struct str uri = question == NULL ? text : str_from(text.data, question);

    sub->args = STR_NONE;
    if (question != NULL) {
        sub->args = arena_dup(&parent->arena, str_from(question + 1, text.data + text.len));
    }
    sub->uri = arena_dup(&parent->arena, percent_decode(&parent->arena, uri));
    return uri_is_safe(sub->uri);
}

static bool may_run(struct request *parent, const struct subrequest *sub)
{
    struct request *main = parent->main;
    unsigned depth = 0;

    for (const struct request *at = parent; at != main; at = at->parent) {
        depth++;
    }
    if (depth > SUBREQUEST_DEPTH_MAX) {
        log_error(&parent->log, 0, "subrequests cycle while processing \"%.*s\"",
                  STR_ARG(sub->uri));
        return false;
    }
    if (main->is_over_memory) {
        return false;
    }
    if (main->subrequests >= SUBREQUEST_COUNT_MAX) {
        log_error(&parent->log, 0, "too many subrequests while processing \"%.*s\"",
                  STR_ARG(sub->uri));
        return false;
    }
    main->subrequests++;
    return true;
}

static void free_child(void *arg)
{
    request_free(arg);
}

/* One set of values: what `set` gave the parent is known to the child, and the other way round. */
static void share_variables(struct request *parent, struct request *child)
{
    struct variable_env *env = &parent->env;

    if (env->values == NULL) {
        env->values = arena_array(env->arena, env->set->used.count, sizeof(struct variable_value));
    }
    child->env.values = env->values;
}

/* Fields of its own; nothing in them speaks of a body. */
static void separate_headers(struct request *child)
{
    struct fields *fields = &child->headers;
    struct field *items = arena_array(&child->arena, fields->count + 1, sizeof(*items));

    if (fields->count != 0) {
        memcpy(items, fields->items, fields->count * sizeof(*items));
    }
    fields->items = items;
    fields->capacity = fields->count + 1;
    fields_set(fields, &child->arena, FIELD_CONTENT_LENGTH, STR_NONE);
    fields_set(fields, &child->arena, FIELD_TRANSFER_ENCODING, STR_NONE);
    child->has_own_headers = true;
}

static void choose_body(struct request *parent, const struct subrequest *sub, struct request *child)
{
    struct request_body *body =
        sub->given == NULL && sub->passes_body ? request_passed_body(parent) : sub->given;

    child->incoming.length = -1;
    child->incoming.is_read = true;
    if (sub->own_headers) {
        separate_headers(child);
    }
    if (body != NULL && (sub->own_headers || sub->given != NULL)) {
        request_give_body(child, body);
    } else if (body != NULL) {
        bool is_announced = body->size != 0 || parent->incoming.length >= 0;
        child->incoming.body = body;
        child->incoming.length = is_announced ? (int64_t) body->size : -1;
    }
}

/* A child with the parent's head; what is asked is its own. */
static struct request *make_child(struct request *parent, struct subrequest *sub)
{
    struct request *child = request_new(parent->connection, &sub_wire);
    struct sub_state *state = arena_new(&child->arena, struct sub_state);

    state->sub = sub;
    state->child = child;
    state->outlives_client = sub->outlives_client;
    child->wire_state = state;
    child->parent = parent;
    child->main = parent->main;
    child->trace = parent->trace;
    request_count_for(child, child->main);
    child->head = parent->head;
    child->headers = parent->headers;
    child->method = parent->method == METHOD_HEAD ? METHOD_HEAD : METHOD_GET;
    child->method_name = child->method == METHOD_HEAD ? STR("HEAD") : STR("GET");
    if (sub->method.len != 0) {
        child->method = method_named(sub->method);
        child->method_name = sub->method;
    }
    choose_body(parent, sub, child);
    child->response.needs_memory = sub->output == SUBREQUEST_MEMORY;
    child->response.is_header_only = sub->output == SUBREQUEST_NONE;
    request_set_uri(child, sub->uri, sub->args);
    child->is_internal = true;
    child->keepalive = parent->keepalive;
    child->start_ms = child->received_ms = clock_now.now_ms;
    child->server = parent->server;
    request_set_location(child, parent->server->root);
    child->restart = RESTART_SERVER;
    if (!sub->own_variables) {
        share_variables(parent, child);
    }
    arena_on_free(&parent->main->arena, free_child, child);
    return child;
}

/* "@name" asks for what the parent asks for, of another location. */
static void choose_named(struct request *parent, struct request *child)
{
    const struct http_location *named = map_get(&parent->server->named, child->uri);

    if (named != NULL) {
        request_set_uri(child, parent->uri, parent->args);
        request_set_location(child, named);
        child->restart = RESTART_NAMED;
    }
}

/* ---- beside each other ---- */

static struct subrequests *subrequests_of(struct request *parent)
{
    if (parent->subrequests_begun == NULL) {
        parent->subrequests_begun = arena_new(&parent->arena, struct subrequests);
        list_init(&parent->subrequests_begun->all);
        list_init(&parent->subrequests_begun->waiters);
    }
    return parent->subrequests_begun;
}

static void subrequest_count(struct request *parent, int more)
{
    parent->subrequests_begun->running += (unsigned) more;
    parent->main->subrequests_running += (unsigned) more;
}

/* A body filter that failed ends the responses that the body was to become part of, too, as with
 * nginx. */
static void break_parents(struct request *child, const struct sub_state *state)
{
    if (!child->response.is_broken || state->sub == NULL || state->sub->output == SUBREQUEST_NONE) {
        return;
    }
    for (struct request *at = child; at != child->main; at = at->parent) {
        response_break(at->parent);
    }
}

static void run_child(void *arg)
{
    struct sub_state *state = arg;
    struct request *child = state->child;
    struct request *parent = child->parent;

    child->fiber = fiber_self();
    fiber_set_subject(&child->log);
    state->result = request_respond(child, HANDLER_AGAIN);
    if (child->response.lacks_end && state->result == HANDLER_DONE) {
        state->result = HANDLER_CUT;
    }
    break_parents(child, state);
    if (state->result != HANDLER_DONE) {
        subrequests_end(child, true);
    }
    sub_answered(child);
    subrequests_end(child, false);
    if (child->location->log_subrequest && child->response.status != 0) {
        request_log_handlers(child);
    }
    child->fiber = NULL;
    subrequest_count(parent, -1);
    list_each(item, &parent->subrequests_begun->waiters) {
        wait_signal_later(&container_of(item, struct waiter, node)->point);
    }
}

/* Waits until one of those that run has ended. False: the wait was cancelled. MAY WAIT. */
static bool wait_for_one(struct subrequests *begun)
{
    unsigned running = begun->running;
    struct waiter waiter = {.node = {NULL, NULL}};
    enum wait_result result = WAIT_READY;

    list_push_back(&begun->waiters, &waiter.node);
    while (result == WAIT_READY && begun->running >= running) {
        result = fiber_wait(&waiter.point, FIBER_NEVER);
    }
    list_remove(&waiter.node);
    return result == WAIT_READY;
}

/* One may always run, so that no request waits for another one's. */
static bool are_too_many(const struct request *parent, const struct subrequests *begun)
{
    return begun->running >= SUBREQUEST_SIBLINGS_MAX ||
           (begun->running != 0 && parent->main->subrequests_running >= SUBREQUEST_AT_ONCE_MAX);
}

/* Forgets those whose fibers are gone. */
static void join_ended(struct subrequests *begun)
{
    list_each(item, &begun->all) {
        if (container_of(item, struct sub_state, node)->handle.has_ended) {
            list_remove(item);
        }
    }
}

/* A fiber of its own also keeps the depth of subrequests inside each other from adding up on one
 * stack. */
static enum handler_result start_child(struct request *parent, struct sub_state *state)
{
    struct subrequests *begun = parent->subrequests_begun;

    subrequest_count(parent, 1);
    while (request_fiber_start(run_child, state, &state->handle) == FIBER_NO_STACK) {
        subrequest_count(parent, -1);
        if (begun->running == 0) {
            log_crit(&state->child->log, 0, "no stack for a subrequest: too many wait at one time");
            return HANDLER_FAIL;
        }
        if (!wait_for_one(begun)) {
            return HANDLER_CLOSED;
        }
        subrequest_count(parent, 1);
    }
    list_push_back(&begun->all, &state->node);
    join_ended(begun);
    return HANDLER_DONE;
}

static bool is_client_gone(const struct request *parent)
{
    return request_has_lost_client(parent) || parent->main->is_cancelled;
}

enum handler_result subrequest_begin(struct request *parent, struct subrequest *sub)
{
    struct subrequests *begun = subrequests_of(parent);

    while (are_too_many(parent, begun)) {
        if (!wait_for_one(begun)) {
            return HANDLER_CLOSED;
        }
    }
    if (!may_run(parent, sub)) {
        return HANDLER_FAIL;
    }
    struct request *child = make_child(parent, sub);
    sub->request = child;
    if (child->uri.len != 0 && child->uri.data[0] == '@') {
        choose_named(parent, child);
    }
    if (sub->prepare != NULL) {
        sub->prepare(sub);
    }
    return start_child(parent, child->wire_state);
}

enum handler_result subrequest_wait(struct subrequest *sub)
{
    struct request *parent = sub->request->parent;
    struct sub_state *state = sub->request->wire_state;

    while (!state->is_answered) {
        if (fiber_wait(&state->answered, FIBER_NEVER) == WAIT_CANCELLED) {
            fiber_cancel_and_join(&state->handle);
        }
    }
    if (is_client_gone(parent)) {
        return HANDLER_CLOSED;
    }
    return state->result == HANDLER_CLOSED || state->result == HANDLER_CUT ? HANDLER_CUT
                                                                           : HANDLER_DONE;
}

enum handler_result subrequest_run(struct request *parent, struct subrequest *sub)
{
    enum handler_result result = subrequest_begin(parent, sub);

    return result == HANDLER_DONE ? subrequest_wait(sub) : result;
}

/* Waits for its end; one that may outlive the client is waited for when that has left, too. */
static bool join_child(struct sub_state *state)
{
    if (!state->outlives_client) {
        return fiber_join(&state->handle, FIBER_NEVER) == WAIT_READY;
    }
    fiber_shield_begin();
    fiber_join(&state->handle, FIBER_NEVER);
    fiber_shield_end();
    return true;
}

void subrequests_end(struct request *parent, bool is_cut)
{
    struct subrequests *begun = parent->subrequests_begun;

    if (begun == NULL) {
        return;
    }
    if (!is_cut && begun->running != 0 && parent == parent->main) {
        request_flush(parent); /* what was given does not wait for them */
    }
    list_each(item, &begun->all) {
        struct sub_state *state = container_of(item, struct sub_state, node);

        if (is_cut || !join_child(state)) {
            fiber_cancel_and_join(&state->handle);
        }
        list_remove(item);
    }
}
