/* The life of a client's HTTP/3 connection: its beginning, its rest and its end. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/routing/connection_settings.h"
#include "http/v3/v3.h"
#include "net/conn/own.h"
#include "net/shards/listener.h"
#include "server/generation.h"

#define ACTION V3_ACTION
#define FLUSH_LOOK_MS                                                                              \
    20 /* between two looks whether the client has acknowledged the last response */

static struct v3_connection *v3_of(const struct quic_connection *quic)
{
    struct v3_connection *c = quic_user(quic);

    CHECK_MAGIC(c, V3_CONNECTION_MAGIC);
    return c;
}

/* ---- the end ---- */

/* QUIC has closed it, and nothing of it is worked on. */
static void v3_free(struct v3_connection *c)
{
    struct quic_connection *quic = c->quic;

    timer_remove(&c->idle_timer);
    counters_mine->writing -= c->is_writing;
    qpack_decoder_free(&c->decoder);
    qpack_encoder_free(&c->encoder);
    free(c->early);
    c->connection->wire_state = NULL;
    connection_free(c->connection);
    c->magic = 0;
    free(c);
    quic_unhold(quic);
}

/* The phrase that the client is sent: for streams that all others depend on, nginx's. */
static struct str phrase_of(const struct v3_connection *c)
{
    if (c->error == QPACK_ENCODER_STREAM_ERROR || c->error == QPACK_DECODER_STREAM_ERROR) {
        return STR("stream error");
    }
    return c->reason == NULL ? STR("excessive load") : str_of(c->reason);
}

/* Until then the client may close by itself: a library drops what it has received, and the client
 * not yet read, when we close. */
static uint64_t lingers_until_ms(const struct v3_connection *c)
{
    const struct http_location *location = c->connection->last_location;

    return location->connections->lingering_close == LINGERING_OFF || c->answered_ms == 0
               ? 0
               : c->answered_ms + location->connections->lingering_timeout_ms;
}

/* The last response was sent: the connection is closed once all was acknowledged, and the client
 * has had time to read it. */
static void v3_connection_finish(struct v3_connection *c)
{
    uint64_t now_ms = clock_now.now_ms;

    if (now_ms < c->flush_until_ms && !quic_is_flushed(c->quic)) {
        c->answered_ms = c->answered_ms == 0 ? 0 : now_ms;
        timer_set(&c->idle_timer, now_ms + FLUSH_LOOK_MS);
    } else if (now_ms < lingers_until_ms(c)) {
        timer_set(&c->idle_timer, lingers_until_ms(c));
    } else {
        c->phase = V3_FAILED; /* nothing more is read */
        quic_close(c->quic, H3_NO_ERROR, STR_NONE);
    }
}

/* ---- settling ---- */

static bool is_idle(const struct v3_connection *c)
{
    return c->stream_count == 0 && list_is_empty(&c->finished);
}

/* The worker ends. A connection that was in use lately moves to a newer worker at once. Others stay
 * with a replaced worker for their keep-alive time: their next response is the last. */
static void leave_with_worker(struct v3_connection *c)
{
    if (!worker_is_replaced || !is_idle(c) || clock_now.now_ms < lingers_until_ms(c)) {
        v3_go_away(c);
    }
}

static void settle(struct v3_connection *c)
{
    loop_undefer(&c->connection->settle);
    if (c->phase == V3_DRAINING || (worker_is_quitting && c->phase == V3_OPEN)) {
        leave_with_worker(c);
    }
    v3_send_instructions(c);
    v3_recycle(c);
    if (c->phase == V3_CLOSED) {
        if (is_idle(c)) {
            v3_free(c);
        }
        return;
    }
    if (c->error != 0) {
        quic_close(c->quic, c->error, phrase_of(c));
        return;
    }
    if (c->phase >= V3_FAILED || !is_idle(c) || !c->is_begun) {
        return;
    }
    if (c->connection->is_last) {
        if (c->flush_until_ms == 0) {
            c->flush_until_ms =
                clock_now.now_ms + c->connection->last_location->connections->send_timeout_ms;
        }
        v3_connection_finish(c);
    } else {
        timer_set(&c->idle_timer,
                  clock_now.now_ms +
                      c->connection->last_location->connections->keepalive_timeout_ms);
        conn_park(c->connection->conn); /* the first to give way */
    }
}

/* It has been idle for long enough, or the last response has had time to arrive. */
static void idle_fire(struct timer *timer)
{
    struct v3_connection *c = container_of(timer, struct v3_connection, idle_timer);

    if (c->phase >= V3_FAILED || !is_idle(c)) {
        return;
    }
    if (c->connection->is_last) {
        v3_connection_finish(c);
    } else {
        v3_go_away(c);
    }
}

/* ---- what QUIC reports ---- */

static void stream_opened(struct quic_stream *quic)
{
    struct v3_connection *c = v3_of(quic->connection);

    if (!quic_stream_is_unidirectional(quic)) {
        v3_stream_opened(c, quic);
    } else if (c->is_hq) {
        quic_stream_release(quic, H3_STREAM_CREATION_ERROR);
    } else {
        h3_peer_streams_opened(&c->peer_streams, quic);
    }
}

static void stream_readable(struct quic_stream *quic)
{
    struct v3_connection *c = v3_of(quic->connection);

    if (c->phase >= V3_FAILED || quic->user == NULL) {
        return;
    }
    if (quic_stream_is_unidirectional(quic)) {
        h3_peer_streams_readable(&c->peer_streams, quic);
    } else {
        v3_stream_readable(quic->user);
    }
}

static void stream_writable(struct quic_stream *quic)
{
    struct v3_connection *c = v3_of(quic->connection);

    if (c->phase >= V3_FAILED) {
        return;
    }
    if (!quic_stream_is_unidirectional(quic)) {
        if (quic->user != NULL) {
            v3_stream_writable(quic->user);
        }
    } else if (quic->is_output_stopped) {
        v3_fail(c, H3_CLOSED_CRITICAL_STREAM, "stopped a critical stream");
    }
}

static void streams_closed(struct list *streams)
{
    struct list *next;

    for (struct list *link = streams->next; link != streams; link = next) {
        next = link->next;
        v3_stream_closed(container_of(link, struct v3_stream, link));
    }
}

static void log_end(const struct v3_connection *c, const struct quic_close *how)
{
    struct log log;

    connection_log(c->connection, ACTION, &log);
    switch (how->end) {
    case QUIC_END_PEER:
        log_info(&log, 0, "client closed connection, code %llu \"%.*s\"",
                 (unsigned long long) how->code, STR_ARG(str_head(how->reason, 256)));
        break;
    case QUIC_END_TIMEOUT:
        log_info(&log, 0, "client timed out in the handshake");
        break;
    case QUIC_END_RESET:
        log_info(&log, 0, "client has lost the connection: stateless reset");
        break;
    default:
        break;
    }
}

static void connection_closed(struct quic_connection *quic, const struct quic_close *how)
{
    struct v3_connection *c = v3_of(quic);

    log_end(c, how);
    counters_mine->limited += how->is_flood;
    c->phase = V3_CLOSED;
    streams_closed(&c->streams);
    streams_closed(&c->finished);
    h3_peer_streams_free(&c->peer_streams);
    c->connection->is_last = true;
    c->connection->conn->is_broken = 1;
    v3_settle_later(c);
}

/* Its first request may come later. */
static void connection_established(struct quic_connection *quic)
{
    struct v3_connection *c = v3_of(quic);

    if (is_idle(c)) {
        conn_park(c->connection->conn);
    }
}

static void streams_called(struct quic_connection *quic)
{
    v3_start_all(v3_of(quic));
}

static const struct quic_owner v3_owner = {
    .established = connection_established,
    .stream_opened = stream_opened,
    .readable = stream_readable,
    .writable = stream_writable,
    .streams_called = streams_called,
    .closed = connection_closed,
};

/* ---- the beginning ---- */

/* Of requests, by the server that is known. */
static void set_limits(struct v3_connection *c, const struct http_server *server)
{
    const struct buffers *large = &server->large_client_header_buffers;

    c->limits = server->head_limits;
    c->limits.head_max = (uint32_t) (large->number * large->size);
    c->decoder.max_string =
        c->limits.line_max < QPACK_TABLE_DEFAULT ? c->limits.line_max : QPACK_TABLE_DEFAULT;
}

bool v3_began(struct listener *listener, struct quic_connection *quic)
{
    const struct http_listen *listen = listener->user;
    struct http_connection *connection = connection_on(listen, quic_conn(quic), &v3_protocol);
    struct v3_connection *c = calloc(1, sizeof(*c));
    struct addr local, peer;

    if (c == NULL) {
        fatal_no_memory(sizeof(*c));
    }
    connection->wire_state = c;
    connection_serve(connection, &v3_protocol);
    quic_local(quic, &local);
    if (listen->address.needs_local_address) {
        connection_set_local(connection, &local);
    }
    connection_peer(connection, &peer);
    unsigned hops = own_hops_at(&local, &peer);
    connection->hops_known = (uint8_t) (hops < UINT8_MAX ? hops + 1 : UINT8_MAX);
    c->magic = V3_CONNECTION_MAGIC;
    c->connection = connection;
    c->quic = quic;
    c->settings = v3_settings_of(listen->default_server);
    qpack_decoder_init(&c->decoder, QPACK_TABLE_DEFAULT);
    qpack_encoder_init(&c->encoder);
    set_limits(c, listen->default_server);
    timer_init(&c->idle_timer, idle_fire);
    h3_peer_streams_init(&c->peer_streams, &v3_peer_rules, c);
    list_init(&c->streams);
    list_init(&c->blocked);
    list_init(&c->finished);
    list_init(&c->starting);
    counters_mine->accepted++;
    counters_mine->handled++;
    quic_adopt(quic, &v3_owner, c);
    quic_hold(quic);
    return true;
}

bool v3_accepted(struct listener *listener, struct quic_connection *quic)
{
    struct v3_connection *c = v3_of(quic);
    const struct http_server *server = connection_server(c->connection);

    c->settings = v3_settings_of(server);
    c->connection->last_location = server->root;
    set_limits(c, server);
    c->is_hq = str_is(quic_alpn(quic), "hq-interop");
    if (!c->is_hq) {
        v3_control_begin(c);
    }
    c->is_begun = true;
    timer_set(&c->idle_timer, clock_now.now_ms + server->client_header_timeout_ms);
    return true;
}

/* ---- what the connection asks for ---- */

static void settle_connection(struct http_connection *connection)
{
    settle(connection->wire_state);
}

static void connection_quit(struct http_connection *connection)
{
    leave_with_worker(connection->wire_state);
}

static void abort_connection(struct http_connection *connection)
{
    struct v3_connection *c = connection->wire_state;

    if (c->phase != V3_CLOSED) {
        c->phase = V3_FAILED;
        quic_close(c->quic, H3_NO_ERROR, STR_NONE);
    }
}

/* Its conn has no descriptor: the loop reports nothing of it. */
static void ignore(struct conn *conn)
{
}

/* It is idle, and others need its place. */
static void give_way(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    struct v3_connection *c = connection->wire_state;

    c->phase = V3_FAILED;
    quic_close_now(c->quic, H3_NO_ERROR);
    settle(c);
}

static bool hq_is_on(const struct http_server *server)
{
    const struct v3_settings *settings = v3_settings_of(server);

    return settings != NULL && settings->http3_hq;
}

/* HTTP/0.9 over QUIC, which tests of the transport use. */
static const struct http_protocol hq_protocol = {
    .alpn = STR_INIT("\x0ahq-interop"),
    .is_quic = true,
    .action = ACTION,
    .owner = {.input = ignore},
    .is_on = hq_is_on,
};

const struct http_protocol v3_protocol = {
    .alpn = STR_INIT("\x02h3"),
    .also = &hq_protocol,
    .is_quic = true,
    .parameter = "quic",
    .action = ACTION,
    .off = "client sent a request to a server where HTTP/3 is off",
    .owner = {.input = ignore, .timed_out = give_way},
    .is_on = v3_is_on,
    .settle = settle_connection,
    .quit = connection_quit,
    .abort = abort_connection,
};
