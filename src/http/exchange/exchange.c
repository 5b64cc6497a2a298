/* The story of an exchange: body, a peer, its response, the next peer, the client. */
#include "http/exchange/exchange.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/client/connection.h"
#include "http/exchange/internal.h"
#include "http/exchange/options/cache_hook.h"
#include "http/request/body.h"
#include "server/generation.h"
#include "shared/upstream/target.h"
#include "upstream/balancer_decision.h"
#include "upstream/peer.h"

/* `, upstream: "…"`, while a peer is dealt with. */
static void describe_upstream(const struct log_context *log_context, struct writer *out)
{
    const struct exchange *x = container_of(log_context, const struct exchange, log_context);

    CHECK_MAGIC(x, EXCHANGE_MAGIC);
    struct str peer = x->pick.peer != NULL ? x->pick.peer->name : STR_NONE;

    if (peer.len == 0 && x->request->log.action == NULL && x->attempts.count != 0) {
        /* None is being chosen: the last one led to what happens now, an error page for instance.
         */
        peer = vec_at(&x->attempts, struct attempt, x->attempts.count - 1)->peer;
    } else if (peer.len == 0 && x->group != NULL && x->pick.group != NULL &&
               x->pick.decision == NULL) {
        peer = x->group->name; /* none was live; a program that has not said yet has none */
    }
    if (peer.len != 0) {
        struct str scheme = x->is_secure ? x->protocol->secure_name : x->protocol->name;
        bool is_path = str_starts(peer, STR("unix:")); /* ends by a colon, as in *_pass */

        log_member(out, "upstream");
        writer_printf(out, "\"%.*s://%.*s%s%.*s\"", STR_ARG(scheme), STR_ARG(peer),
                      is_path ? ":" : "", STR_ARG(x->url_tail));
    }
}

/* ---- time limits of a request's own ---- */

static const char timeouts_tag;

void exchange_set_timeout(struct request *request, enum own_timeout which, uint64_t ms)
{
    uint64_t *own = request_data(request, &timeouts_tag, OWN_TIMEOUTS * sizeof(*own));

    own[which] = ms;
}

uint64_t exchange_own_timeout(struct request *request, enum own_timeout which)
{
    const uint64_t *own = request_data(request, &timeouts_tag, 0);

    return own == NULL ? 0 : own[which];
}

/* Those that are not 0 take the place of the settings', in a copy. */
static void replace_timeouts(struct exchange *x, uint64_t connect_ms, uint64_t send_ms,
                             uint64_t read_ms)
{
    struct exchange_settings *own;

    if (connect_ms == 0 && send_ms == 0 && read_ms == 0) {
        return;
    }
    own = arena_alloc(&x->request->arena, sizeof(*own));
    *own = *x->settings;
    own->connect_timeout_ms = connect_ms != 0 ? connect_ms : own->connect_timeout_ms;
    own->send_timeout_ms = send_ms != 0 ? send_ms : own->send_timeout_ms;
    own->read_timeout_ms = read_ms != 0 ? read_ms : own->read_timeout_ms;
    x->settings = own;
}

static enum sent_body_mode mode_of_body(const struct request *request,
                                        const struct exchange_settings *settings)
{
    if (!settings->pass_request_body) {
        return SENT_BODY_NONE;
    }
    bool is_streamed = !settings->request_buffering && !request->incoming.is_read &&
                       request->incoming.body == NULL && !request_body_is_gone(request);
    return is_streamed ? SENT_BODY_STREAMED : SENT_BODY_WHOLE;
}

struct exchange *exchange_new(struct request *request, const struct protocol *protocol,
                              const struct exchange_settings *settings, const void *module_settings)
{
    struct exchange *former = request->exchange;
    struct exchange *x = arena_new(&request->arena, struct exchange);

    x->magic = EXCHANGE_MAGIC;
    x->request = request;
    x->protocol = protocol;
    x->settings = x->location_tag = settings;
    x->cache.hook = settings->cache_hook;
    x->module_settings = module_settings;
    x->body_mode = mode_of_body(request, settings);
    x->relay.is_buffered = settings->buffering;
    x->log_context.describe = describe_upstream;
    if (former != NULL) {
        x->attempts = former->attempts;
        x->log_context.next = former->log_context.next; /* it adds nothing to log lines any more */
    }
    request->log_contexts = &x->log_context;
    request->exchange = x;
    if (request->data != NULL) {
        replace_timeouts(x, exchange_own_timeout(request, OWN_CONNECT),
                         exchange_own_timeout(request, OWN_SEND),
                         exchange_own_timeout(request, OWN_READ));
    }
    return x;
}

/* What variables made of the target, without a scheme that stands before it. */
static void evaluate_target(struct exchange *x)
{
    struct str text = template_text(x->target, &x->request->env);
    struct str scheme = x->protocol->scheme;
    struct str secure = x->protocol->secure_name;
    struct str rest = str_skip(text, secure.len < text.len ? secure.len : text.len);

    if (secure.len != 0 && str_starts_nocase(text, secure) && str_starts(rest, STR("://"))) {
        x->is_secure = true;
        text = str_skip(rest, 3);
    } else if (str_starts_nocase(text, scheme)) {
        text = str_skip(text, scheme.len);
    }
    x->target_text = text;
}

void exchange_set_target(struct exchange *x, const struct pass_target *target)
{
    x->group = target->group;
    x->target = target->text;
    x->default_port = target->default_port;
    x->is_secure = target->is_secure;
    if (x->group == NULL) {
        evaluate_target(x);
    }
}

void exchange_log(struct exchange *x, enum log_level level, int error, const char *format, ...)
{
    struct log *log = &x->request->log;
    static __thread char text[LOG_LINE_MAX];
    va_list args;

    if (log->level < level) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_write(log, level, error, "%s", text);
}

struct str exchange_keep(struct exchange *x, struct str bytes)
{
    return bytes.len == 0 ? bytes : arena_dup(&x->request->arena, bytes);
}

/* ---- before a backend is asked ---- */

static void let_group_go(void *group)
{
    upstream_group_let_go(group);
}

/* Turns a target with variables into a group, which stays until the request has been logged: the
 * log tells its name. MAY WAIT for the resolver. */
static enum handler_result find_target(struct exchange *x)
{
    struct request *request = x->request;
    const struct http_location *location = request->location;
    const struct target_options options = {.subsystem = &upstream_http,
                                           .text = x->target_text,
                                           .default_port = x->default_port,
                                           .resolver = location->resolver,
                                           .resolver_timeout_ms = location->resolver_timeout_ms,
                                           .log = &request->log};

    switch (target_find(&options, &x->group)) {
    case TARGET_FOUND:
        upstream_group_hold(x->group);
        arena_on_free(&request->arena, let_group_go, x->group);
        return HANDLER_NEXT;
    case TARGET_BAD:
        return request_fail(request, 500);
    case TARGET_UNRESOLVED:
        return request->is_cancelled ? HANDLER_CLOSED : request_fail(request, 502);
    case TARGET_CANCELLED:
        break;
    }
    return HANDLER_CLOSED;
}

/* ---- peer after peer ---- */

/* The bit of *_next_upstream that a response's status has, or 0. */
static unsigned next_bit(unsigned status)
{
    switch (status) {
    case 403:
        return NEXT_403;
    case 404:
        return NEXT_404;
    case 429:
        return NEXT_429;
    case 500:
        return NEXT_500;
    case 502:
        return NEXT_502;
    case 503:
        return NEXT_503;
    case 504:
        return NEXT_504;
    default:
        return 0;
    }
}

/* May another peer be asked after such a failure? */
static bool may_try_next(const struct exchange *x, unsigned kind)
{
    const struct exchange_settings *settings = x->settings;
    const struct request *request = x->request;

    if ((settings->next_upstream & kind) == 0 || (settings->next_upstream & NEXT_OFF) != 0 ||
        request->is_cancelled) {
        return false;
    }
    if (x->has_sent && x->goes_once) {
        return false; /* of a streamed body what went to this peer is gone */
    }
    if (settings->next_upstream_tries != 0 &&
        x->pick.tries >= (uint64_t) settings->next_upstream_tries) {
        return false;
    }
    if (settings->next_upstream_timeout_ms != 0 &&
        clock_now.now_ms - x->start_ms >= settings->next_upstream_timeout_ms) {
        return false;
    }
    return upstream_pick_has_next(&x->pick);
}

/* Was it the peer's fault? Answers of these kinds are as good as any. */
static enum peer_outcome outcome_of(unsigned kind)
{
    if (kind == 0 || kind == NEXT_DENIED) {
        return PEER_UNTRIED;
    }
    return (kind & (NEXT_403 | NEXT_404 | NEXT_NOT_FOUND)) != 0 ? PEER_SERVED : PEER_FAILED;
}

/* What the group's balancer, which is a program, says of the attempt that comes. False: no request
 * could be made. */
static bool take_decision(struct exchange *x)
{
    struct balancer_decision *decision = x->pick.decision;

    if (decision->makes_request) {
        decision->makes_request = false;
        if (x->protocol->make_request != NULL && !x->protocol->make_request(x)) {
            return false;
        }
    }
    if (decision->tls != 0) {
        x->is_secure = decision->tls > 0 && x->settings->tls.context != NULL;
    }
    replace_timeouts(x, decision->connect_timeout_ms, decision->send_timeout_ms,
                     decision->read_timeout_ms);
    return true;
}

/* Asks peers until one gives a response that is to be passed on. MAY WAIT. */
static enum attempt_result ask_peers(struct exchange *x, struct failure *failure)
{
    for (;;) {
        x->request->log.action = "connecting to upstream";
        switch (upstream_pick_next(&x->pick)) {
        case PICK_CANCELLED:
            return ATTEMPT_CANCELLED;
        case PICK_NONE:
            *failure =
                (struct failure){.kind = NEXT_ERROR, .status = x->group->set->no_server_status};
            attempt_begin(x, x->group->name);
            attempt_end(x, failure->status);
            return ATTEMPT_FAILED;
        case PICK_REFUSED:
            *failure = (struct failure){.status = x->pick.decision->refusal};
            return ATTEMPT_FAILED;
        case PICK_OK:
            break;
        }
        if (__builtin_expect(x->pick.decision != NULL, 0) && !take_decision(x)) {
            *failure = (struct failure){.status = 500};
            return ATTEMPT_FAILED;
        }
        if (__builtin_expect(x->settings->request_dynamic, 0) &&
            x->protocol->make_request != NULL && !x->protocol->make_request(x)) {
            *failure = (struct failure){.status = 500};
            return ATTEMPT_FAILED;
        }
        enum attempt_result result = exchange_ask_peer(x, failure);
        if (result == ATTEMPT_CANCELLED) {
            attempt_end(x, 0);
            return result;
        }
        if (result == ATTEMPT_ANSWERED) {
            unsigned bit = x->response.status < 400 ? 0 : next_bit(x->response.status);
            if (bit == 0 || !may_try_next(x, bit)) {
                return result;
            }
            *failure = (struct failure){.kind = bit, .status = x->response.status};
            exchange_leave_connection(x, false);
        }
        attempt_end(x, failure->status);
        bool goes_on = may_try_next(x, failure->kind);
        balancer_decision_failed(x->pick.decision, failure->status,
                                 outcome_of(failure->kind) == PEER_SERVED);
        upstream_pick_done(&x->pick, outcome_of(failure->kind));
        if (!goes_on) {
            return ATTEMPT_FAILED;
        }
    }
}

/* ---- the response ---- */

/* A demand for credentials stays with the error page that takes the response's place. */
bool exchange_intercepts(struct exchange *x, enum handler_result *result)
{
    struct request *request = x->request;
    unsigned status = x->response.status;

    if (status == 508 && x->connection != NULL && x->connection->conn->is_at_home) {
        return false; /* a circle ended: nobody on the way back begins another */
    }
    if (!x->response.has_no_page &&
        (!x->settings->intercept_errors || status < 300 || !response_has_page(request, status))) {
        return false;
    }
    if (status == 401) {
        fields_each(field, &x->response.fields) {
            if (field->id == FIELD_WWW_AUTHENTICATE) {
                fields_add_known(&request->response.fields, &request->arena, FIELD_WWW_AUTHENTICATE,
                                 field->value);
            }
        }
    }
    *result = request_fail(request, status);
    return true;
}

/* The response's place is taken by something else: its body is not wanted. */
static void drop_response(struct exchange *x)
{
    if (x->cache.hook != NULL) {
        x->cache.hook->drop(x);
    }
    attempt_end(x, 0);
    exchange_leave_connection(x, exchange_skip_body(x));
    upstream_pick_done(&x->pick, PEER_SERVED);
}

/* What the client gets of a response that is final. MAY WAIT. */
static enum handler_result pass_response(struct exchange *x)
{
    struct request *request = x->request;
    enum handler_result result;

    upstream_pick_responded(&x->pick);
    if (x->response.is_upgrade) {
        return response_from_upstream(x) ? tunnel_relay(x) : request_fail(request, 502);
    }
    if (x->cache.hook != NULL && !x->cache.hook->accept(x, next_bit(x->response.status), &result)) {
        return result;
    }
    if (x->cache.output == OUTPUT_NONE || x->cache.output == OUTPUT_BODY) {
        return relay_response(x);
    }
    if (exchange_is_replaced(x, &result)) {
        drop_response(x);
        return result;
    }
    if (!response_from_upstream(x)) {
        exchange_leave_connection(x, false);
        return request_fail(request, 502);
    }
    return relay_response(x);
}

/* No peer has answered. */
static enum handler_result exchange_fail(struct exchange *x, const struct failure *failure)
{
    enum handler_result result;

    if (x->cache.hook != NULL && x->cache.hook->fail(x, failure->kind, &result)) {
        return result;
    }
    return request_fail(x->request, failure->status);
}

enum handler_result exchange_fetch(struct exchange *x)
{
    struct request *request = x->request;
    struct failure failure = {.kind = NEXT_ERROR, .status = 502};
    bool is_shielded = x->settings->ignore_client_abort || x->cache.outlives_client;
    enum handler_result result = x->group != NULL ? HANDLER_NEXT : find_target(x);

    if (result == HANDLER_NEXT && x->body_mode == SENT_BODY_STREAMED &&
        request_body_is_gone(request)) {
        result = sent_body_hold(x); /* of which a part is gone meanwhile */
    }
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (x->head.data == NULL && !x->protocol->make_request(x)) {
        return request->response.status != 0 ? HANDLER_FAIL : HANDLER_CLOSED;
    }
    x->pick.env = &request->env;
    x->pick.arena = &request->arena;
    x->pick.log = &request->log;
    x->pick.subject = request;
    x->pick.pinned = x->protocol->has_logins ? logins_pinned(x) : NULL;
    x->start_ms = clock_now.now_ms;
    upstream_pick_begin(&x->pick, x->group);
    if (__builtin_expect(x->pick.decision != NULL, 0)) {
        x->pick.decision->tries_most = (uint64_t) x->settings->next_upstream_tries;
    }
    if (is_shielded) {
        fiber_shield_begin();
    }
    switch (ask_peers(x, &failure)) {
    case ATTEMPT_ANSWERED:
        result = pass_response(x);
        break;
    case ATTEMPT_FAILED:
        result = exchange_fail(x, &failure);
        break;
    case ATTEMPT_CANCELLED:
        result = x->sent.refusal != 0 ? request_fail(request, x->sent.refusal) : HANDLER_CLOSED;
        break;
    }
    if (is_shielded) {
        fiber_shield_end();
    }
    if (request->tunnel != NULL) {
        return result; /* it ends all this itself */
    }
    if (x->connection != NULL) {
        exchange_leave_connection(x, false);
    }
    upstream_pick_end(&x->pick);
    return result;
}

enum handler_result exchange_run(struct exchange *x)
{
    CHECK_MAGIC(x, EXCHANGE_MAGIC);
    enum handler_result result = sent_body_prepare(x);

    if (result != HANDLER_NEXT) {
        return result;
    }
    result = x->cache.hook != NULL ? x->cache.hook->run(x) : exchange_fetch(x);
    if (x->request->tunnel == NULL) {
        x->request->log.action = NULL;
    }
    return result;
}
