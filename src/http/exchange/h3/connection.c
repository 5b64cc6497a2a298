/* HTTP/3 connections to backends: the requests on them, what QUIC reports, how they end. */
#include "http/exchange/h3/h3.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "server/generation.h"
#include "upstream/peer.h"

/* ---- what goes wrong ---- */

void h3_connection_fail(struct h3_connection *c, uint64_t error, const char *format, ...)
{
    char text[512];
    bool is_shared = c->connection->users > 1;
    va_list args;

    if (!h3_connection_is_sound(c)) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    c->is_bad = true;
    c->connection->is_doomed = true;
    c->connection->quic_code = error;
    list_each(link, &c->streams) {
        struct h3_stream *stream = container_of(link, struct h3_stream, link);

        coded_stream_lose(&stream->coded, text, is_shared);
    }
    quic_close(c->quic, error, STR_NONE);
}

static const struct client_guard_limit limits[H3_GUARD_COUNT] = {H3_GUARDS(CLIENT_GUARD_LIMIT)};

bool h3_guard(struct h3_connection *c, enum h3_guard guard)
{
    if (client_guard_count(&c->guards[guard], &limits[guard])) {
        return true;
    }
    counters_mine->limited++;
    h3_connection_fail(c, H3_EXCESSIVE_LOAD, "upstream sent too many %s", limits[guard].text);
    return false;
}

/* ---- what QUIC reports ---- */

static struct h3_connection *h3_of_quic(const struct quic_connection *quic)
{
    return quic_user(quic);
}

/* Nobody is on it, and it is of no use any more. It may be freed. */
static void look_at_idle(struct h3_connection *c)
{
    struct conn *conn = c->connection->conn;

    if (c->connection->users == 0) {
        conn->owner->input(conn);
    }
}

static void stream_opened(struct quic_stream *quic)
{
    struct h3_connection *c = h3_of_quic(quic->connection);

    if (quic_stream_is_unidirectional(quic) && !c->settings->hq) {
        h3_peer_streams_opened(&c->peer_streams, quic);
        return;
    }
    quic_stream_release(quic, H3_STREAM_CREATION_ERROR);
    if (!c->settings->hq) {
        h3_connection_fail(c, H3_STREAM_CREATION_ERROR, "upstream opened a request stream");
        look_at_idle(c);
    }
}

static void request_readable(struct h3_stream *stream)
{
    struct quic_stream *quic = stream->quic;

    if (!quic->is_input_reset) {
        h3_stream_read(stream);
    } else if (stream->coded.is_input_ended) {
        return;
    } else if (quic->input_code == H3_REQUEST_REJECTED && !stream->coded.has_heard) {
        coded_stream_refuse(&stream->coded, "upstream rejected request with error %llu",
                            (unsigned long long) quic->input_code);
    } else {
        coded_stream_fail(&stream->coded, "upstream rejected request with error %llu",
                          (unsigned long long) quic->input_code);
    }
    if (h3_connection_is_sound(stream->connection)) {
        coded_stream_wake(&stream->coded);
    }
}

static void stream_readable(struct quic_stream *quic)
{
    struct h3_connection *c = h3_of_quic(quic->connection);

    if (c->is_bad || quic->user == NULL) {
        return;
    }
    if (quic_stream_is_unidirectional(quic)) {
        h3_peer_streams_readable(&c->peer_streams, quic);
        if (c->is_bad || c->goaway_id != UINT64_MAX) {
            look_at_idle(c);
        }
    } else {
        request_readable(quic->user);
    }
}

static void stream_writable(struct quic_stream *quic)
{
    struct h3_connection *c = h3_of_quic(quic->connection);

    if (c->is_bad) {
        return;
    }
    if (quic_stream_is_unidirectional(quic)) {
        if (quic->is_output_stopped) {
            h3_connection_fail(c, H3_CLOSED_CRITICAL_STREAM, "upstream stopped a critical stream");
            look_at_idle(c);
        }
        return;
    }
    struct h3_stream *stream = quic->user;
    if (stream == NULL) {
        return;
    }
    if (quic->is_output_stopped) {
        h3_stream_drop_body(stream); /* the response may come all the same */
    } else {
        h3_stream_pump(stream);
    }
    wait_signal_later(&stream->coded.room);
}

static void streams_available(struct quic_connection *quic)
{
    h3_connection_allow(h3_of_quic(quic), 0);
}

/* How the log calls it, if the backend gave a reason other than that it ends. */
static void log_end(const struct h3_stream *stream, const struct quic_close *how)
{
    if (how->end == QUIC_END_PEER &&
        how->code != (how->is_application ? (uint64_t) H3_NO_ERROR : QUIC_NO_ERROR)) {
        exchange_log(stream->coded.x, LOG_ERROR, 0,
                     "upstream closed connection with error %llu \"%.*s\"",
                     (unsigned long long) how->code, STR_ARG(str_head(how->reason, 256)));
    }
}

static void connection_closed(struct quic_connection *quic, const struct quic_close *how)
{
    struct h3_connection *c = h3_of_quic(quic);
    struct conn *conn = c->connection->conn;

    list_each(link, &c->streams) {
        struct h3_stream *stream = container_of(link, struct h3_stream, link);

        log_end(stream, how);
        h3_stream_closed(stream);
        coded_stream_wake(&stream->coded);
        wait_signal_later(&stream->coded.room);
    }
    counters_mine->limited += how->is_flood;
    c->is_closed = true;
    c->control = c->decoder_stream = NULL;
    h3_peer_streams_free(&c->peer_streams);
    c->connection->is_doomed = true;
    conn->is_input_closed = conn->is_peer_closed = 1;
    if (how->error != 0) {
        conn->is_broken = 1;
        conn->error = (uint16_t) how->error;
    }
    look_at_idle(c);
}

static const struct quic_owner h3_owner = {.stream_opened = stream_opened,
                                           .readable = stream_readable,
                                           .writable = stream_writable,
                                           .streams_available = streams_available,
                                           .closed = connection_closed};

/* ---- who is on it ---- */

static void h3_connection_free(struct upstream_connection *upstream)
{
    struct h3_connection *c = h3_connection_of(upstream);

    upstream->state = NULL;
    h3_peer_streams_free(&c->peer_streams);
    qpack_decoder_free(&c->decoder);
    free(c);
}

/* While nobody is on it, all that matters ends it. */
static bool is_of_use(struct upstream_connection *upstream)
{
    const struct h3_connection *c = h3_connection_of(upstream);

    return h3_connection_is_sound(c) && c->goaway_id == UINT64_MAX;
}

struct h3_connection *h3_connection_new(struct exchange *x)
{
    static const struct conn_owner nobody = {.input = NULL}; /* its conn has no socket */
    const struct exchange_http3 *settings = &x->settings->http3;
    struct upstream_connection *upstream = x->connection;
    struct h3_connection *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        fatal_no_memory(sizeof(*c));
    }
    c->connection = upstream;
    c->quic = upstream->quic;
    c->settings = settings;
    c->goaway_id = UINT64_MAX;
    list_init(&c->streams);
    h3_peer_streams_init(&c->peer_streams, &h3_backend_rules, c);
    qpack_decoder_init(&c->decoder, (size_t) settings->max_table_capacity);
    upstream->state = c;
    upstream->state_free = h3_connection_free;
    upstream->idle_input = is_of_use;
    upstream->quic_code = H3_NO_ERROR;
    upstream->conn->owner = &nobody;
    upstream->conn->user = upstream;
    if (quic_idle_timeout_ms(c->quic) != 0) {
        upstream->keeps_ms = quic_idle_timeout_ms(c->quic);
    }
    quic_adopt(c->quic, &h3_owner, c);
    if (!settings->hq && !h3_control_begin(c)) { /* no request is on it yet to log this */
        exchange_log(x, LOG_ERROR, 0, "upstream allows fewer than two streams of one direction");
        h3_connection_fail(c, H3_STREAM_CREATION_ERROR, "no control stream");
    }
    return c;
}

void h3_connection_allow(struct h3_connection *c, unsigned leaving)
{
    struct upstream_connection *upstream = c->connection;
    struct peer_cell *cell = upstream->cell;
    uint64_t left = quic_streams_left(c->quic);
    uint64_t most = (uint64_t) c->settings->max_concurrent_streams;
    uint64_t users = upstream->users - leaving + left;

    upstream->is_taken = left == 0;
    if (c->is_alone) {
        return;
    }
    upstream->users_max = (unsigned) (users < most ? users : most);
    if (upstream->users_max > 1 && cell != NULL &&
        atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) == 0) {
        atomic_store_explicit(&cell->multiplexes, 1, memory_order_relaxed);
    }
}

/* So often that neither side takes the connection for idle, as long as a response is awaited. */
static void keep_alive(struct h3_connection *c)
{
    quic_keep_alive(c->quic, quic_idle_timeout_ms(c->quic) / 3);
}

bool h3_connection_enter(struct h3_connection *c, struct h3_stream *stream)
{
    struct quic_stream *quic = NULL;

    if (h3_connection_is_sound(c) && c->goaway_id == UINT64_MAX) {
        quic = quic_stream_open(c->quic, false);
    } else {
        c->connection->is_doomed = true;
    }
    if (quic == NULL) {
        if (h3_connection_is_sound(c) && quic_streams_left(c->quic) == 0) {
            exchange_log(stream->coded.x, LOG_ERROR, 0, "upstream allows no request");
        }
        return false;
    }
    stream->connection = c;
    stream->quic = quic;
    quic->user = stream;
    list_push_back(&c->streams, &stream->link);
    keep_alive(c);
    h3_connection_allow(c, 0);
    return true;
}

void h3_connection_leave(struct h3_connection *c, struct h3_stream *stream)
{
    struct quic_stream *quic = stream->quic;

    list_remove(&stream->link);
    h3_input_free(&stream->input);
    if (quic != NULL) {
        if (!stream->coded.is_input_ended) {
            h3_cancel_sections(c, quic);
        }
        quic->user = NULL;
        stream->quic = NULL;
        quic_stream_release(quic, stream->coded.is_input_ended && !stream->coded.is_bad
                                      ? H3_NO_ERROR
                                      : H3_REQUEST_CANCELLED);
    }
    if (!c->is_closed) {
        h3_connection_allow(c, 1);
        if (list_is_empty(&c->streams)) {
            quic_keep_alive(c->quic, 0);
        }
    }
}
