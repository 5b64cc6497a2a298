/* One attempt at one peer: connect, send the request, read the head of the response. */
#include <errno.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "http/client/connection.h"
#include "http/exchange/internal.h"
#include "http/request/body.h"
#include "http/request/wire.h"
#include "http/routing/response_settings.h"
#include "net/conn/own.h"
#include "shared/metrics/counters.h"
#include "upstream/balancer_decision.h"
#include "upstream/peer.h"
#include "server/generation.h"

/* So many bytes leave at once on a connection that has nothing else to send. */
#define ONE_WRITE (16 * 1024)
/* Reads in a row that find something before others of the worker get their turn. */
#define AT_ONCE_MAX 16
/* A peer says nothing for so long: it may be able to serve only those connections that rest here.
 */
#define GIVE_WAY_MS 500
/* Interim responses (1xx) of one attempt; a backend that sends more is at fault. */
#define INTERIM_MAX 32

/* ---- notes for the $upstream_ variables ---- */

/* The group as the configuration has it. A name that a request gave is not shown: not of CONNECT,
 * either, whose target is one. */
static struct str group_logged(const struct exchange *x)
{
    if (!x->group->is_at_run_time) {
        return x->group->name;
    }
    return x->target != NULL ? x->target->source : STR("(any)");
}

static struct str group_counted(const struct exchange *x)
{
    return x->group->status_zone.len != 0 ? x->group->status_zone : group_logged(x);
}

/* Attempts at addresses that clients may choose are counted together: they would take all series.
 */
void attempt_begin(struct exchange *x, struct str name)
{
    struct request *request = x->request;
    bool is_first = x->attempt_start_ms == 0;

    x->attempt = attempts_add(&x->attempts, &request->arena, name);
    x->attempt->group = group_logged(x);
    x->attempt->is_at_run_time = x->group->is_at_run_time;
    if (metrics_is_on && request == request->main) {
        x->attempt->series = 1 + metrics_begin_peer(SERIES_PEER, group_counted(x),
                                                    x->group->is_at_run_time ? STR("(any)") : name);
    }
    x->attempt->is_after_redirect = is_first && x->attempts.count > 1;
    x->attempt->is_further = x->cache.output == OUTPUT_BODY;
    if (x->pick.queued_ms != 0) {
        x->attempt->queue_ms = x->pick.queued_ms;
    }
    x->attempt_start_ms = clock_now.now_ms;
}

struct str exchange_group_name(const struct exchange *x)
{
    if (x->attempt != NULL) {
        return x->attempt->is_at_run_time ? STR("") : x->attempt->group;
    }
    /* Before the first attempt, the group is known while it is held. */
    return x->pick.list == NULL || x->group->is_at_run_time ? STR("") : x->group->name;
}

void attempt_end(struct exchange *x, unsigned status)
{
    struct attempt *attempt = x->attempt;

    if (attempt == NULL || attempt->response_ms != UINT64_MAX) {
        return;
    }
    if (status != 0 && attempt->status == 0) {
        attempt->status = status;
    }
    attempt->response_ms = clock_now.now_ms - x->attempt_start_ms;
}

void exchange_leave_connection(struct exchange *x, bool is_reusable)
{
    if (x->upload != NULL) {
        upload_stop(x);
    }
    struct upstream_connection *connection = x->connection;
    if (connection == NULL) {
        return;
    }
    x->attempt->bytes_sent += sent_so_far(x) - x->sent_before;
    if (connection->conn->log == &x->request->log) {
        connection->conn->log = log_main;
    }
    is_reusable = is_reusable && x->sent.is_ended && !x->sent.is_doubtful;
    if (x->protocol->channel->end != NULL) {
        x->protocol->channel->end(x, is_reusable);
        return;
    }
    x->connection = NULL;
    if (is_reusable) {
        upstream_connection_keep(connection); /* if it is sound */
    } else {
        upstream_connection_close(connection);
    }
}

/* ---- waiting ---- */

bool io_deadline_extend(struct exchange *x, struct io_deadline *deadline)
{
    unsigned at_once = deadline->at_once + 1;

    io_deadline_begin(x, deadline);
    if (at_once == AT_ONCE_MAX) {
        return fiber_yield() == WAIT_READY;
    }
    deadline->at_once = at_once;
    return true;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Nobody was woken. Bytes went since somebody looked, or came that were of no use: when was the
 * last of them? */
static void io_deadline_look(const struct exchange *x, struct io_deadline *deadline)
{
    const struct channel *channel = x->protocol->channel;
    uint64_t sent = sent_so_far(x);

    if (deadline->received != x->attempt->bytes_received) {
        io_deadline_begin(x, deadline);
    } else if (deadline->sent != sent) {
        uint64_t moved_ms =
            channel->moved_ms != NULL ? channel->moved_ms(x) : x->connection->conn->moved_ms;

        deadline->sent = sent;
        deadline->since_ms = later(deadline->since_ms, later(moved_ms, x->sent.begun_ms));
    }
}

/* When it ends, as things are. */
static uint64_t io_deadline_end(struct exchange *x, const struct io_deadline *deadline)
{
    const struct exchange_settings *settings = x->settings;
    const struct channel *channel = x->protocol->channel;
    uint64_t heard_ms = channel->heard_ms != NULL ? channel->heard_ms(x) : 0;
    uint64_t since_ms = later(deadline->since_ms, heard_ms);

    if (exchange_unsent(x) != 0) {
        return later(since_ms, x->sent.begun_ms) + settings->send_timeout_ms;
    }
    /* The end of the response is seen; what is left in the queue is not. */
    if (upload_is_under_way(x)) {
        return clock_now.now_ms + settings->send_timeout_ms;
    }
    return since_ms + settings->read_timeout_ms;
}

/*
 * When an idle connection to the peer is to give way. A backend that serves few connections at a
 * time (a pool of processes, a single thread) has accepted ours in its kernel, and may be waiting
 * on one that we hold: we would wait for ourselves.
 */
#define GIVE_WAY_DUE(x)                                                                            \
    ((x)->waits_ms == 0 || (x)->attempt->bytes_received != 0                                       \
         ? FIBER_NEVER                                                                             \
         : (x)->attempt_start_ms + (x)->attempt->connect_ms + (x)->waits_ms)

enum wait_result io_deadline_wait(struct exchange *x, struct io_deadline *deadline)
{
    const struct exchange_settings *settings = x->settings;
    uint64_t timeout_ms = settings->read_timeout_ms;

    if (exchange_unsent(x) != 0 && settings->send_timeout_ms < timeout_ms) {
        timeout_ms = settings->send_timeout_ms; /* what is queued may be sent when this turn ends */
    }
    /* Whose turn it is then is looked at then. */
    uint64_t end_ms = deadline->since_ms + timeout_ms;
    for (;;) {
        uint64_t turn_ms = GIVE_WAY_DUE(x);
        enum wait_result result = exchange_wait(x, turn_ms < end_ms ? turn_ms : end_ms);

        if (result != WAIT_TIMED_OUT) {
            if (sent_so_far(x) != deadline->sent ||
                x->attempt->bytes_received != deadline->received) {
                io_deadline_begin(x, deadline);
            }
            return result;
        }
        io_deadline_look(x, deadline);
        if (clock_now.now_ms >= turn_ms) {
            upstream_connection_give_way(x->connection);
            x->waits_ms *= 2;
        }
        end_ms = io_deadline_end(x, deadline);
        if (end_ms <= clock_now.now_ms) {
            if (exchange_unsent(x) != 0) {
                x->request->log.action = "sending request to upstream";
            }
            log_error(&x->request->log, ETIMEDOUT, "upstream timed out");
            return result;
        }
    }
}

/* ---- connecting ---- */

static enum attempt_result fail_attempt(struct exchange *x, struct failure *failure, unsigned kind,
                                        unsigned status)
{
    *failure = (struct failure){.kind = kind, .status = status};
    x->attempt->status = status;
    exchange_leave_connection(x, false);
    return ATTEMPT_FAILED;
}

/* What of a connection's options needs memory while it is opened. */
struct upstream_connection_way {
    struct addr local;
    struct upstream_connection_tls tls;
};

/* From which address, and whether over TLS. */
static void choose_way(struct exchange *x, struct upstream_connection_way *way,
                       struct upstream_connection_options *options)
{
    const struct exchange_settings *settings = x->settings;
    const struct balancer_decision *decision = x->pick.decision;

    way->local.len = 0;
    if (decision != NULL && decision->has_local) {
        options->local = &decision->local;
    } else if (settings->bind != NULL &&
               bind_address(settings->bind, &x->request->env, &way->local) && way->local.len != 0) {
        options->local = &way->local;
        options->is_transparent = settings->bind->is_transparent;
    }
    if (x->is_secure) {
        tls_client_link(&settings->tls, &x->request->env,
                        x->target_text.len != 0 ? x->target_text : x->group->name,
                        x->protocol->alpn, &way->tls);
        way->tls.preface = x->preface;
        if (decision != NULL && decision->host.len != 0) {
            way->tls.options.name = decision->host;
            way->tls.options.identity = tls_client_identity(way->tls.context, &way->tls.options);
        }
        /* Sessions of TLS are resumed within a group, as in stream. */
        way->tls.options.identity ^= keyed_hash(x->group->name) << 1;
        options->tls = &way->tls;
        options->quic = x->protocol->is_quic ? settings->http3.quic : NULL;
        options->is_alone = settings->tls.is_certificate_late && x->group->is_implicit;
        if (x->request->location->backend_hooks != NULL) {
            /* What a script chose is for this request alone. */
            way->tls.options.hooks = x->request->location->backend_hooks(x->request);
            way->tls.options.reuses_session = false;
            options->is_alone = true;
        }
    }
}

/* May the peer not be asked at all? *failure says why. */
static bool is_refused(struct exchange *x, unsigned hops, struct failure *failure)
{
    const struct vec *conditions = &x->settings->allow_upstream;

    if (__builtin_expect(hops > x->request->server->max_self_hops, 0) &&
        (x->protocol->is_quic ? own_may_take_datagrams(&x->pick.peer->addr)
                              : own_may_be(&x->pick.peer->addr))) {
        /* an error_page, a post_action: reported before */
        *failure = (struct failure){.status = 508};
        return true;
    }
    if (x->protocol->is_quic && !x->is_secure) {
        log_error(&x->request->log, 0, "HTTP/3 to upstream needs TLS");
        *failure = (struct failure){.status = 500};
        return true;
    }
    if (conditions->count != 0 && !templates_all_true(conditions, &x->request->env)) {
        log_error(&x->request->log, 0, "access to upstream server is denied");
        *failure = (struct failure){.kind = NEXT_DENIED, .status = 403};
        return true;
    }
    return false;
}

static enum attempt_result connect_peer(struct exchange *x, struct failure *failure)
{
    const struct exchange_settings *settings = x->settings;
    const struct protocol *protocol = x->protocol;
    struct upstream_connection_way way;
    struct upstream_connection_options options = {
        .keepalive = settings->socket_keepalive,
        .send_buffer = settings->socket_sndbuf,
        .receive_buffer = settings->socket_rcvbuf,
        .send_lowat = settings->send_lowat,
        .tag = x->pick.group->is_keepalive_local ? x->location_tag : NULL,
        .language = protocol,
        .wants_fresh = x->wants_fresh,
        .hops = connection_hops(x->request->connection),
        .tells_timeout = protocol->timed_out != NULL,
        .is_unrepeatable = x->goes_once || (settings->next_upstream & NEXT_OFF) != 0,
        .open_max = protocol->open_max != NULL ? protocol->open_max(x) : 0,
    };
    int error = 0;

    options.is_unpromised = protocol->keeps_unasked != NULL && protocol->keeps_unasked(x);
    bool is_login = false;
    if (protocol->has_logins) { /* the client's own come first */
        options.pinned = logins_pinned(x);
        is_login = (x->request->headers.seen & LOGIN_IDS) != 0 && logins_are_asked_for(x);
    }
    options.is_private = is_login || (protocol->wants_whole_connection != NULL &&
                                      protocol->wants_whole_connection(x));
    x->was_reused = x->was_refused = false;
    if (is_refused(x, options.hops, failure)) {
        return fail_attempt(x, failure, failure->kind, failure->status);
    }
    if (x->is_secure || settings->bind != NULL || x->pick.decision != NULL) {
        choose_way(x, &way, &options);
    }
    switch (upstream_connection_open(&x->pick, &options, settings->connect_timeout_ms,
                                     &x->connection, &error)) {
    case UPSTREAM_CONNECT_OK:
        break;
    case UPSTREAM_CONNECT_FAILED:
        return fail_attempt(x, failure, NEXT_ERROR, 502);
    case UPSTREAM_CONNECT_TIMED_OUT:
        if (protocol->timed_out != NULL) {
            protocol->timed_out(x, false);
        }
        return fail_attempt(x, failure, NEXT_TIMEOUT, 504);
    case UPSTREAM_CONNECT_ERROR:
        return fail_attempt(x, failure, 0, 500);
    case UPSTREAM_CONNECT_CANCELLED:
        return ATTEMPT_CANCELLED;
    }
    x->was_reused = x->connection->is_reused;
    x->waits_ms = x->was_reused ? 0 : GIVE_WAY_MS;
    x->sent_before = protocol->channel->sent != NULL ? 0 : x->connection->conn->sent;
    x->attempt->connect_ms = clock_now.now_ms - x->attempt_start_ms;
    if (__builtin_expect(is_login, 0)) {
        logins_bind(x);
    }
    if (protocol->channel->begin != NULL && !protocol->channel->begin(x)) {
        if (x->sent.is_cut) {
            return ATTEMPT_CANCELLED;
        }
        return fail_attempt(x, failure, NEXT_ERROR, 502);
    }
    if (x->is_secure && x->connection->users_max == 1) {
        x->connection->conn->log = &x->request->log; /* TLS logs more than errno */
    }
    return ATTEMPT_ANSWERED;
}

/* ---- sending ---- */

/* Queues the request and lets it go, with the body that was read before or by a fiber that reads
 * it. False: there is no fiber left for that. */
static bool send_request(struct exchange *x)
{
    const struct request_body *body = request_passed_body(x->request);
    struct conn *conn = x->connection->conn;
    int64_t length = sent_body_length(x);

    x->request->log.action = "sending request to upstream";
    x->attempt->send_ms = clock_now.now_ms - x->attempt_start_ms;
    if (x->protocol->send_head != NULL) {
        x->protocol->send_head(x);
    } else {
        conn_write(conn, x->head);
    }
    /* The head goes to a peer now: nothing of the body has. */
    x->sent = (struct sent_body){.announced = length < 0 ? SENT_BODY_UNKNOWN : (uint64_t) length,
                                 .is_doubtful = x->sent.is_doubtful};
    x->has_sent = true;
    bool is_sound = true;
    if (x->body_mode == SENT_BODY_STREAMED) {
        is_sound = upload_start(x);
    } else {
        struct body_piece piece = {.fd = -1};
        bool is_empty = false;

        if (x->body_override.data != NULL) {
            piece.bytes = x->body_override;
        } else if (x->body_mode == SENT_BODY_NONE || body == NULL || body->size == 0) {
            is_empty = true;
        } else if (body->fd != -1) {
            piece.fd = body->fd;
            piece.size = body->size;
        } else {
            piece.bytes = body->bytes;
        }
        sent_body_give(x, is_empty ? NULL : &piece, true);
        x->attempt->sent_ms = x->attempt->send_ms;
    }
    conn_flush_later(conn); /* on a shared one together with what others send in this turn */
    if (conn_unsent(conn) > ONE_WRITE || x->connection->users_max > 1) {
        conn_set_nodelay(conn, true); /* the next write does not wait for an acknowledgement */
    }
    return is_sound;
}

/* ---- reading the head ---- */

/* 103 goes to clients that want it (`early_hints`); others are nobody's business. */
static void pass_interim(struct exchange *x)
{
    struct request *request = x->request;

    if (x->response.status == 103 && request->location->responses->early_hints.count != 0 &&
        templates_any_true(&request->location->responses->early_hints, &request->env)) {
        request->log.action = "sending early hints to client";
        request->wire->send_interim(request, 103, upstream_interim_fields(x));
    }
}

static void forget_response(struct exchange *x)
{
    x->response = (struct upstream_response){.content_length = -1};
    x->body_received = 0;
    x->is_reusable = false;
    if (x->protocol->begin_response != NULL) {
        x->protocol->begin_response(x);
    }
}

/* The backend closed or broke off before a head was there. */
void exchange_log_early_end(struct exchange *x)
{
    const struct conn *conn = x->connection->conn;

    if (x->was_refused) {
        return; /* that was logged */
    }
    if (conn->is_broken) {
        log_error(&x->request->log, conn->error, "recv() failed");
    } else {
        log_error(&x->request->log, 0, "upstream prematurely closed connection");
    }
}

static enum attempt_result attempt_read_head(struct exchange *x, struct failure *failure)
{
    const struct channel *channel = x->protocol->channel;
    struct io_deadline deadline;
    unsigned interim = 0;

    io_deadline_begin(x, &deadline);
    x->request->log.action = "reading response header from upstream";
    for (;;) {
        switch (x->protocol->read_head(x)) {
        case HEAD_DONE:
            if (x->response.status >= 200 || x->response.is_upgrade) {
                return ATTEMPT_ANSWERED;
            }
            if (++interim > INTERIM_MAX) {
                counters_mine->limited++;
                log_error(&x->request->log, 0, "upstream sent too many interim responses");
                return fail_attempt(x, failure, NEXT_INVALID_HEADER, 502);
            }
            pass_interim(x);
            forget_response(x);
            continue;
        case HEAD_BAD:
            return fail_attempt(x, failure, NEXT_INVALID_HEADER, 502);
        case HEAD_MORE:
            break;
        }
        if (x->sent.is_cut) {
            return ATTEMPT_CANCELLED;
        }
        if (exchange_input(x).len >= x->settings->buffer_size) {
            log_error(&x->request->log, 0, "upstream sent too big header");
            return fail_attempt(x, failure, NEXT_INVALID_HEADER, 502);
        }
        if (channel->fill(x)) {
            if (x->attempt->first_byte_ms == UINT64_MAX) {
                x->attempt->first_byte_ms = clock_now.now_ms - x->attempt_start_ms;
            }
            if (!io_deadline_extend(x, &deadline)) {
                return ATTEMPT_CANCELLED;
            }
            continue;
        }
        if (exchange_has_ended(x)) {
            exchange_log_early_end(x);
            return fail_attempt(x, failure, NEXT_ERROR, 502);
        }
        enum wait_result result = io_deadline_wait(x, &deadline);
        if (result == WAIT_TIMED_OUT) {
            return fail_attempt(x, failure, NEXT_TIMEOUT, 504);
        }
        if (result == WAIT_CANCELLED) {
            return ATTEMPT_CANCELLED;
        }
    }
}

/*
 * The one repetition that nobody ordered: a kept connection ended before a byte of the response
 * came, as one does that the peer closes at that moment. Not of what may go once, nor where
 * *_next_upstream says `off`.
 */
static bool may_repeat(const struct exchange *x)
{
    return x->was_reused && !(x->has_sent && x->goes_once) && !x->request->is_cancelled &&
           x->request->location->retry_cached_connection &&
           (x->settings->next_upstream & NEXT_OFF) == 0;
}

enum attempt_result exchange_ask_peer(struct exchange *x, struct failure *failure)
{
    x->wants_fresh = false;
    /* Its method says so, or its body, of which we keep nothing. */
    x->goes_once = x->body_mode == SENT_BODY_STREAMED ||
                   ((x->request->method & (METHOD_POST | METHOD_LOCK | METHOD_PATCH)) != 0 &&
                    (x->settings->next_upstream & NEXT_NON_IDEMPOTENT) == 0);
    for (;;) {
        attempt_begin(x, x->pick.peer->name);
        enum attempt_result result = connect_peer(x, failure);
        if (result == ATTEMPT_ANSWERED) {
            forget_response(x);
            result = send_request(x) ? attempt_read_head(x, failure)
                                     : fail_attempt(x, failure, NEXT_ERROR, 500);
        }
        if (result == ATTEMPT_ANSWERED) {
            if (x->protocol->has_logins &&
                (x->response.status == 401 || x->response.status == 407)) {
                logins_note_response(x);
            }
            x->attempt->status = x->response.status;
            x->attempt->header_ms = clock_now.now_ms - x->attempt_start_ms;
        }
        bool was_dead = result == ATTEMPT_FAILED && failure->kind == NEXT_ERROR &&
                        x->attempt->bytes_received == 0;

        if (was_dead && x->was_reused && !x->was_refused) {
            upstream_connection_note_end(&x->pick);
        }
        if (!was_dead || !may_repeat(x)) {
            return result;
        }
        attempt_end(x, failure->status);
        x->wants_fresh = true;
    }
}
