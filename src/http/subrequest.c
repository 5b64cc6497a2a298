/* Subrequests: a request without a head of its own on the wire, worked on by its parent's fiber. */
#include "http/subrequest.h"

#include "base/buf.h"
#include "base/clock.h"

/* Of a subrequest; what its wire_state points to, in its arena. */
struct sub_state {
    struct subrequest *sub;
    struct buf body; /* MEMORY: so far */
};

/* ---- the wire that is none ---- */

static void sub_send_head(struct request *request)
{
    request->response.is_head_sent = true;
    if (request->response.status == 304 || request->response.status == 204) {
        request->response.is_header_only = true;
    }
}

/* Bytes of a file piece are wanted in memory. */
static bool append_piece(struct request *request, struct sub_state *state,
                         const struct body_piece *piece)
{
    uint64_t limit = request->location->subrequest_output_buffer_size;
    size_t room = state->body.len < limit ? (size_t) limit - state->body.len : 0;
    struct str bytes = piece->bytes;

    if (bytes.len > room) {
        log_error(&request->log, 0, "too big subrequest response");
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

    request->response.is_complete = request->response.is_complete || is_last;
    if (piece == NULL) {
        return true;
    }
    if (sub->output == SUBREQUEST_INLINE) {
        return sub->filter != NULL ? body_filter_next(sub->filter, request->parent, piece, false)
                                   : response_send(request->parent, piece, false);
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
    (void) request;
    (void) status;
    (void) fields;
}

static ssize_t sub_read_body(struct request *request, void *at, size_t size)
{
    (void) at;
    (void) size;
    request->is_body_read = true;
    return 0;
}

static void sub_ended(struct request *request, enum flow flow)
{
    (void) request;
    (void) flow;
}

/* What goes into the parent's response is taken as that is. */
static uint64_t sub_backlog(const struct request *request)
{
    return request->main->wire->backlog(request->main);
}

static const struct http_wire sub_wire = {
    .send_head = sub_send_head,
    .send_body = sub_send_body,
    .send_interim = sub_send_interim,
    .read_body = sub_read_body,
    .ended = sub_ended,
    .backlog = sub_backlog,
};

/* ---- running ---- */

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

/* A child with the parent's head; what is asked is its own. */
static struct request *make_child(struct request *parent, struct subrequest *sub)
{
    struct request *child = request_new(parent->conn, parent->http, &sub_wire);
    struct sub_state *state = arena_new(&child->arena, struct sub_state);

    state->sub = sub;
    child->wire_state = state;
    child->parent = parent;
    child->main = parent->main;
    child->line = parent->line;
    child->version = parent->version;
    child->target = parent->target;
    child->host = parent->host;
    child->port = parent->port;
    child->scheme = parent->scheme;
    child->headers = parent->headers;
    child->method = parent->method == METHOD_HEAD ? METHOD_HEAD : METHOD_GET;
    child->method_name = child->method == METHOD_HEAD ? STR("HEAD") : STR("GET");
    if (sub->method.len != 0) {
        child->method = request_method_of(sub->method);
        child->method_name = sub->method;
    }
    child->is_target_stale = true;
    child->content_length = -1;
    child->is_body_read = true;
    if (sub->passes_body) {
        child->body = parent->body;
        child->content_length = parent->body == NULL ? -1 : (int64_t) parent->body->size;
    }
    child->response.needs_memory = sub->output == SUBREQUEST_MEMORY;
    child->uri = sub->uri;
    child->args = sub->args;
    child->is_internal = true;
    child->keepalive = parent->keepalive;
    child->start_ms = clock_now.now_ms;
    child->server = parent->server;
    request_set_location(child, parent->server->root);
    child->restart = RESTART_SERVER;
    share_variables(parent, child);
    arena_on_free(&parent->main->arena, free_child, child);
    return child;
}

/* "@name" asks for what the parent asks for, of another place. */
static void choose_named(struct request *parent, struct request *child)
{
    const struct http_location *named = map_get(&parent->server->named, child->uri);

    if (named != NULL) {
        child->uri = parent->uri;
        child->args = parent->args;
        request_set_location(child, named);
        child->restart = RESTART_NAMED;
    }
}

/* A child on its way, in the frame of the parent's fiber, which waits for its end. */
struct child_run {
    struct request *child;
    enum flow flow; /* of request_answer */
};

static void run_child(void *arg)
{
    struct child_run *run = arg;

    run->child->fiber = fiber_self();
    run->flow = request_answer(run->child);
    run->child->fiber = NULL;
}

/*
 * On a fiber of its own, so that the depth of subrequests inside each other does not add up on one stack. False:
 * there is none.
 */
static bool answer_child(struct request *child, enum flow *flow)
{
    struct child_run run = {.child = child, .flow = FLOW_CLOSED};
    struct fiber_handle handle;

    if (fiber_start_joinable(run_child, &run, &handle) == FIBER_NO_STACK) {
        log_crit(&child->log, 0, "no stack for a subrequest: too many wait at one time");
        return false;
    }
    if (fiber_join(&handle, FIBER_NEVER) != WAIT_READY) {
        fiber_cancel_and_join(&handle);
    }
    *flow = run.flow;
    return true;
}

enum flow subrequest_run(struct request *parent, struct subrequest *sub)
{
    if (!may_run(parent, sub)) {
        return FLOW_FAIL;
    }
    struct request *child = make_child(parent, sub);
    struct sub_state *state = child->wire_state;
    enum flow flow;

    sub->request = child;
    if (child->uri.len != 0 && child->uri.data[0] == '@') {
        choose_named(parent, child);
    }
    if (!answer_child(child, &flow)) {
        return FLOW_FAIL;
    }
    if (sub->output == SUBREQUEST_MEMORY) {
        sub->body = arena_dup(&parent->main->arena, buf_str(&state->body));
    }
    buf_free(&state->body);
    if (child->location->log_subrequest && child->response.status != 0) {
        request_log_handlers(child);
    }
    if (parent->conn->is_broken || parent->main->is_cancelled) {
        return FLOW_CLOSED;
    }
    return flow == FLOW_CLOSED || flow == FLOW_CUT ? FLOW_CUT : FLOW_DONE;
}
