/* The relay: an accepted response's body on its way to the client and the cache hook. */
#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/client/connection.h"
#include "http/exchange/internal.h"
#include "http/exchange/options/cache_hook.h"
#include "http/exchange/spool.h"
#include "http/request/wire.h"

/* Bytes on their way to a client above which it counts as slow. */
#define BEHIND_MIN (32 * 1024)

/* Pieces of this size are handed on with their buffer instead of being copied. */
#define HANDED_MIN (8 * 1024)

/* What became of the client while its response is relayed. */
struct relay {
    struct exchange *x;
    struct io_deadline deadline;
    bool is_client_gone;    /* or there is nobody to send to: a head alone was wanted */
    bool is_body_unwanted;  /* the response has no body: HEAD, 304 */
    bool is_ended;          /* the response has its last piece: as its length says */
    bool has_unflushed;     /* something was given that was not flushed */
    uint64_t begun_ms;      /* for limit_rate */
    uint64_t head_received; /* attempt->bytes_received, up to the end of the head */
};

/* May nobody wait for the client? */
static bool must_drain(const struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;

    return channel->must_drain != NULL && channel->must_drain(x);
}

/*
 * A large piece that is the last thing in the connection's buffer is passed on with the buffer
 * itself. False: it has to be copied.
 */
static bool hand_on(struct exchange *x, struct body_piece *piece)
{
    struct conn *conn = x->connection->conn;
    struct str bytes = piece->bytes;

    if (conn->in_start != conn->in_end || conn->in == NULL || bytes.data < conn->in ||
        bytes.data + bytes.len > conn->in + conn->in_end) {
        return false;
    }
    struct conn_buffer *buffer = arena_new(&x->request->arena, struct conn_buffer);
    buffer->data = conn_input_detach(conn, &buffer->size);
    piece->is_volatile = false;
    piece->release = conn_buffer_release;
    piece->release_arg = buffer;
    return true;
}

/*
 * A client that does not keep up has the spool between it and the backend: where buffering says so,
 * and where the connection may not wait, whatever buffering says. Bytes of a subrequest wait for
 * their place in the response as well.
 */
static void choose_spool(struct relay *relay, uint64_t size)
{
    struct exchange *x = relay->x;
    const struct request *request = x->request;
    bool drains = x->protocol->channel->must_drain != NULL && must_drain(x);
    uint64_t limit = x->settings->buffers.number * x->settings->buffers.size;

    if (x->relay.spool != NULL || !(x->relay.is_buffered || drains)) {
        return;
    }
    limit = limit < BEHIND_MIN ? BEHIND_MIN : limit;
    bool keeps_up = request->delivery.limit_rate == 0 &&
                    request->wire->backlog(request, drains ? size : 1) <= limit;
    if (keeps_up && !(drains && request->main != request)) {
        return;
    }
    x->relay.spool = spool_start(x, drains);
    if (x->relay.spool == NULL) {       /* there is no fiber for it */
        x->relay.is_buffered = false;   /* the client is waited for */
        relay->is_client_gone = drains; /* or reads on, unless that would make others wait */
    }
}

/* $upstream_response_length: what came after the head, with what frames it (chunk sizes, records,
 * frames), as with nginx. */
static uint64_t relay_length(const struct relay *relay)
{
    struct exchange *x = relay->x;
    uint64_t (*body_received)(struct exchange * x) = x->protocol->channel->body_received;

    return body_received != NULL ? body_received(x)
                                 : x->attempt->bytes_received - relay->head_received;
}

/* A part of the body has come: it goes to who keeps it, and to the client, straight or through the
 * spool. MAY WAIT. */
static void relay_take(struct relay *relay, struct str bytes)
{
    struct exchange *x = relay->x;

    x->body_received += bytes.len;
    x->attempt->response_length = relay_length(relay);
    if (x->cache.is_kept) {
        x->cache.hook->write(x, bytes);
    }
    bool is_too_much = x->cache.part_length != 0 && x->body_received > x->cache.part_length;
    if (relay->is_client_gone || relay->is_body_unwanted || x->cache.output == OUTPUT_HEAD ||
        is_too_much) {
        return;
    }
    choose_spool(relay, bytes.len);
    if (relay->is_client_gone) {
        return;
    }
    if (x->relay.spool != NULL) {
        relay->is_client_gone = !spool_put(x->relay.spool, bytes);
        return;
    }
    struct body_piece piece = {.bytes = bytes, .fd = -1, .is_volatile = true};
    if (bytes.len >= HANDED_MIN) {
        hand_on(x, &piece);
    }
    relay->is_ended = (int64_t) x->body_received == x->response.content_length &&
                      !x->response.may_have_trailers && !x->cache.is_followed;
    relay->is_client_gone = !response_send(x->request, &piece, relay->is_ended);
    relay->has_unflushed = true;
}

/* Must the response be read to its end although nobody waits for it? */
static bool is_needed(const struct exchange *x)
{
    return x->settings->ignore_client_abort || x->cache.is_kept;
}

/* *_limit_rate: waits until the next read is due. MAY WAIT. False: cancelled. */
static bool wait_for_rate(struct relay *relay)
{
    struct exchange *x = relay->x;

    if (x->relay.limit_rate == 0 || must_drain(x)) {
        return true;
    }
    uint64_t allowed = x->relay.limit_rate * ((clock_now.now_ms - relay->begun_ms) / 1000 + 1);
    if (x->body_received < allowed) {
        return true;
    }
    uint64_t pause_ms = (x->body_received - allowed) * 1000 / x->relay.limit_rate + 1;
    bool went_on = fiber_sleep(clock_now.now_ms + pause_ms) != WAIT_CANCELLED;
    io_deadline_begin(x, &relay->deadline);
    return went_on;
}

/* Nothing has come: what was given may leave now. */
static void flush_client(struct relay *relay)
{
    struct body_piece flush = {.fd = -1, .is_flush = true};
    struct request *request = relay->x->request;

    if (relay->has_unflushed && !relay->is_client_gone) {
        choose_spool(relay, 0); /* its fiber begins with a flush */
    }
    if (relay->has_unflushed && !relay->is_client_gone && relay->x->relay.spool == NULL) {
        relay->is_client_gone = !response_send(request, &flush, false);
    }
    relay->has_unflushed = false;
}

/* Part after part, until the body's end. MAY WAIT. BODY_MORE: cancelled, or nobody needs more. */
static enum body_result read_body(struct relay *relay)
{
    struct exchange *x = relay->x;
    const struct protocol *protocol = x->protocol;
    struct str bytes;

    for (;;) {
        enum body_result result = protocol->read_body(x, &bytes);

        if (result == BODY_DATA) {
            relay_take(relay, bytes);
            if (relay->is_client_gone && !is_needed(x)) {
                return BODY_MORE;
            }
            continue;
        }
        if (result != BODY_MORE) {
            return result;
        }
        if (!wait_for_rate(relay)) {
            return BODY_MORE;
        }
        if (protocol->channel->fill(x)) {
            if (!io_deadline_extend(x, &relay->deadline)) {
                return BODY_MORE;
            }
            continue;
        }
        if (exchange_has_ended(x)) {
            if (protocol->body_ended != NULL) {
                return protocol->body_ended(x);
            }
            exchange_log_early_end(x);
            return BODY_BAD;
        }
        if (x->sent.is_cut) {
            return BODY_MORE; /* what the backend waits for will not come */
        }
        flush_client(relay);
        switch (io_deadline_wait(x, &relay->deadline)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            return BODY_BAD;
        case WAIT_CANCELLED:
            return BODY_MORE;
        }
    }
}

/* The end for the client: the last piece, or a cut. MAY WAIT. */
static enum handler_result end_response(struct relay *relay, bool is_whole)
{
    struct exchange *x = relay->x;
    struct request *request = x->request;

    bool is_last = is_whole && !x->cache.is_followed;

    request->response.trailers =
        is_whole && x->response.trailers != NULL ? upstream_trailers(x) : NULL;
    if (x->relay.spool != NULL) {
        bool is_given = spool_finish(x->relay.spool, is_last);
        x->relay.spool = NULL;
        relay->is_client_gone |= !is_given;
    } else if (!relay->is_client_gone && !relay->is_body_unwanted && !relay->is_ended && is_last) {
        relay->is_client_gone = !response_send(request, NULL, true);
    }
    if (relay->is_client_gone) {
        return HANDLER_CLOSED;
    }
    if (relay->is_body_unwanted || relay->is_ended) {
        return HANDLER_DONE;
    }
    if (!is_whole && request->response.hold.is_held) {
        response_withdraw(request, 502,
                          STR_NONE); /* no head was sent: there may still be another response */
    }
    return is_last ? HANDLER_DONE : is_whole ? HANDLER_NEXT : HANDLER_CUT;
}

uint64_t exchange_limit_rate(const struct exchange *x)
{
    const struct template *written = x->settings->limit_rate;
    uint64_t number;

    return written != NULL && parse_size(template_text(written, &x->request->env), &number) ? number
                                                                                            : 0;
}

/* Bytes of an unwanted body that are read to keep a connection; more are left there with it. */
#define SKIPPED_MAX (64 * 1024)

bool exchange_skip_body(struct exchange *x)
{
    struct str bytes;
    uint64_t skipped = 0;
    enum body_result result;

    do {
        result = x->protocol->read_body(x, &bytes);
        skipped += result == BODY_DATA ? bytes.len : 0;
    } while ((result == BODY_DATA && skipped <= SKIPPED_MAX) ||
             (result == BODY_MORE && x->protocol->channel->fill(x)));
    return result == BODY_END && x->is_reusable;
}

/*
 * proxy_method HEAD for another method: the head speaks of a body that is not there. A client of
 * HTTP/1 gets it as it is, as with nginx, but on a connection that ends, where it cannot wait for
 * the body; over HTTP/2 the length is left out (RFC 9113, 8.1.1).
 */
static void begin_without_body(struct request *request)
{
    struct response *response = &request->response;

    if (request->method == METHOD_HEAD || response->status == 204 || response->status == 304 ||
        response->content_length <= 0) {
        return;
    }
    if (request->main->wire->is_multiplexed) {
        response->content_length = -1;
    } else {
        response->lacks_body = true;
        request->keepalive = false;
    }
}

/* Starts the response to the client, where this exchange has one to start. As response_start. */
static enum handler_result start_response(struct exchange *x)
{
    struct request *request = x->request;

    if (x->cache.output == OUTPUT_BODY) {
        return HANDLER_NEXT;
    }
    if (x->cache.output == OUTPUT_NONE) {
        return HANDLER_DONE;
    }
    if (x->cache.hook != NULL) {
        x->cache.hook->start(x);
    }
    request->incoming.is_streamed = x->upload != NULL;
    if (request->incoming.is_streamed && !request->incoming.is_read) {
        request->keepalive = false; /* it answered before it had all: the rest is dropped */
        request->is_lingering_forced = true;
    }
    if (x->response.has_no_body) {
        begin_without_body(request);
    }
    request->log.action = "sending to client";
    enum handler_result handled = response_start(request);
    if (x->cache.hook != NULL) {
        x->cache.hook->started(x);
    }
    return handled;
}

enum handler_result relay_response(struct exchange *x)
{
    struct request *request = x->request;
    struct relay relay = {
        .x = x,
        .begun_ms = clock_now.now_ms,
        .head_received = x->attempt->bytes_received - exchange_input(x).len,
    };

    if (x->settings->limit_rate != NULL) {
        x->relay.limit_rate = exchange_limit_rate(x);
    }
    enum handler_result handled = start_response(x);
    if (handled != HANDLER_NEXT && handled != HANDLER_DONE) {
        relay.is_client_gone = true;
    }
    relay.is_body_unwanted = handled == HANDLER_DONE;
    bool is_read = x->response.has_no_body;
    enum body_result result = BODY_END;
    if (is_read || handled == HANDLER_NEXT || is_needed(x)) {
        request->log.action = "reading upstream";
        io_deadline_begin(x, &relay.deadline);
        result = read_body(&relay);
    } else {
        x->is_reusable = exchange_skip_body(x); /* nobody wants it, nor waits for it */
    }
    unsigned status = x->response.status;
    if (request->method != METHOD_HEAD &&
        (!x->response.has_no_body || status == 204 || status == 304)) {
        /* The response does not end with its head because of the request's method. */
        x->attempt->response_length = relay_length(&relay);
    }
    if (x->cache.hook != NULL && !x->cache.hook->end(x, result == BODY_END)) {
        result = BODY_BAD;
    }
    bool is_whole = result == BODY_END;
    attempt_end(x, 0);
    /* The peer is free for others while the client reads what is left. */
    exchange_leave_connection(x, is_whole && x->is_reusable);
    upstream_pick_done(&x->pick,
                       result == BODY_BAD && !x->relay.is_peer_fine ? PEER_FAILED : PEER_SERVED);
    if (result == BODY_MORE) {
        if (x->relay.spool != NULL) {
            spool_abort(x->relay.spool);
            x->relay.spool = NULL;
        }
        return HANDLER_CLOSED;
    }
    if (handled != HANDLER_NEXT && handled != HANDLER_DONE) {
        return handled;
    }
    request->log.action = "sending to client";
    return end_response(&relay, is_whole);
}
