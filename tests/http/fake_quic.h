/*
 * QUIC without packets, for tests of HTTP/3: the functions of net/quic/quic.h on memory. The test
 * is the client: it gives bytes of streams with fake_give and looks at what was written. Output
 * counts as sent, and as acknowledged, in fake_turn.
 */
#ifndef TESTS_HTTP_FAKE_QUIC_H
#define TESTS_HTTP_FAKE_QUIC_H

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "net/quic/quic.h"

#define FAKE_STREAMS 64

struct fake_reference {
    void (*release)(void *);
    void *arg;
};

struct fake_stream {
    struct quic_stream base; /* first */
    struct buf input;
    size_t consumed;
    bool has_fin;
    struct buf output;
    size_t sent;
    uint64_t below; /* quic_stream_want_writable; 0 = it was not called */
    struct fake_reference references[64];
    unsigned reference_count;
    uint64_t reset_code; /* of ours; 0 = none */
    uint64_t stop_code;
    bool is_finished; /* our FIN */
    bool is_released;
};

struct quic_connection {
    struct conn *conn;
    const struct quic_owner *owner;
    void *user;
    struct fake_stream *streams[FAKE_STREAMS];
    unsigned stream_count;
    uint64_t own_count;      /* streams that we opened */
    bool is_client;          /* we are: the test is a server */
    uint64_t own_by_kind[2]; /* … and opened these, of both directions and of one */
    unsigned holds;
    bool is_closing;
    bool was_closed;
    uint64_t close_code;
    size_t step; /* bytes of a stream that are sent in a turn */
    const char *alpn;
};

static struct fake_stream *fake_of(struct quic_stream *stream)
{
    return (struct fake_stream *) stream;
}

/* ---- what HTTP/3 calls ---- */

struct str quic_stream_input(struct quic_stream *stream)
{
    struct fake_stream *fake = fake_of(stream);

    return fake->input.len == 0 ? STR_NONE : str_skip(buf_str(&fake->input), fake->consumed);
}

static void fake_check_end(struct fake_stream *fake)
{
    if (fake->has_fin && fake->consumed == fake->input.len) {
        fake->base.is_input_finished = true;
    }
}

void quic_stream_consume(struct quic_stream *stream, size_t n)
{
    struct fake_stream *fake = fake_of(stream);

    fake->consumed += n;
    if (fake->consumed > fake->input.len) {
        abort();
    }
    fake_check_end(fake);
}

void quic_stream_stop(struct quic_stream *stream, uint64_t code)
{
    fake_of(stream)->stop_code = code;
}

static struct fake_stream *fake_make(struct quic_connection *connection, uint64_t id)
{
    struct fake_stream *fake = calloc(1, sizeof(*fake));

    if (fake == NULL || connection->stream_count == FAKE_STREAMS) {
        abort();
    }
    fake->base.magic = QUIC_STREAM_MAGIC;
    fake->base.id = id;
    fake->base.connection = connection;
    connection->streams[connection->stream_count++] = fake;
    return fake;
}

struct quic_stream *quic_stream_open(struct quic_connection *connection, bool is_unidirectional)
{
    uint64_t low = is_unidirectional ? 3 : 1;

    if (connection->is_client) {
        return &fake_make(connection, connection->own_by_kind[is_unidirectional]++ * 4 + low - 1)
                    ->base;
    }
    return &fake_make(connection, connection->own_count++ * 4 + 3)->base;
}

uint64_t quic_streams_left(const struct quic_connection *connection)
{
    return 8 - connection->own_by_kind[0];
}

static bool fake_takes(struct quic_stream *stream)
{
    return !stream->is_output_ended && !stream->connection->was_closed;
}

void quic_stream_write(struct quic_stream *stream, struct str bytes)
{
    if (fake_takes(stream)) {
        buf_append(&fake_of(stream)->output, bytes);
    }
}

static void fake_refer(struct fake_stream *fake, void (*release)(void *), void *arg)
{
    if (release == NULL) {
        return;
    }
    if (!fake_takes(&fake->base) || fake->reference_count == 64) {
        release(arg);
        return;
    }
    fake->references[fake->reference_count++] = (struct fake_reference){release, arg};
}

void quic_stream_write_reference(struct quic_stream *stream, struct str bytes,
                                 void (*release)(void *), void *arg)
{
    quic_stream_write(stream, bytes);
    fake_refer(fake_of(stream), release, arg);
}

void quic_stream_write_file(struct quic_stream *stream, int fd, struct file_range range,
                            void (*release)(void *), void *arg)
{
    char part[4096];

    for (uint64_t done = 0; done < range.size;) {
        size_t n = range.size - done < sizeof(part) ? (size_t) (range.size - done) : sizeof(part);
        if (pread(fd, part, n, range.offset + (off_t) done) != (ssize_t) n) {
            abort();
        }
        quic_stream_write(stream, (struct str){part, n});
        done += n;
    }
    fake_refer(fake_of(stream), release, arg);
}

static void fake_release_all(struct fake_stream *fake)
{
    for (unsigned i = 0; i < fake->reference_count; i++) {
        fake->references[i].release(fake->references[i].arg);
    }
    fake->reference_count = 0;
}

void quic_stream_finish(struct quic_stream *stream)
{
    if (!stream->is_output_ended) {
        stream->is_output_ended = true;
        fake_of(stream)->is_finished = true;
    }
}

void quic_stream_reset(struct quic_stream *stream, uint64_t code)
{
    struct fake_stream *fake = fake_of(stream);

    if (fake->reset_code == 0 && !(stream->is_output_ended && fake->sent == fake->output.len)) {
        fake->reset_code = code;
        stream->is_output_ended = true;
        fake->sent = fake->output.len;
        fake_release_all(fake);
    }
}

uint64_t quic_stream_unsent(const struct quic_stream *stream)
{
    const struct fake_stream *fake = (const struct fake_stream *) stream;

    return fake->output.len - fake->sent;
}

uint64_t quic_stream_sent(const struct quic_stream *stream)
{
    return ((const struct fake_stream *) stream)->sent;
}

uint64_t quic_stream_unacknowledged(const struct quic_stream *stream)
{
    return quic_stream_unsent(stream);
}

void quic_stream_want_writable(struct quic_stream *stream, uint64_t below)
{
    fake_of(stream)->below = below;
}

void quic_stream_prioritize(struct quic_stream *stream, unsigned urgency, bool is_incremental)
{
    if (urgency > 7) {
        abort();
    }
}

void quic_stream_release(struct quic_stream *stream, uint64_t code)
{
    struct fake_stream *fake = fake_of(stream);

    if (fake->is_released) {
        abort();
    }
    fake->is_released = true;
    if (!stream->is_output_ended) {
        quic_stream_reset(stream, code);
    }
    if (!stream->is_input_finished) {
        quic_stream_stop(stream, code);
    }
}

void *quic_user(const struct quic_connection *connection)
{
    return connection->user;
}

void quic_adopt(struct quic_connection *connection, const struct quic_owner *owner, void *user)
{
    connection->owner = owner;
    connection->user = user;
}

struct conn *quic_conn(const struct quic_connection *connection)
{
    return connection->conn;
}

void quic_local(const struct quic_connection *connection, struct addr *local)
{
    *local = (struct addr){0};
}

struct str quic_alpn(const struct quic_connection *connection)
{
    return str_of(connection->alpn);
}

bool quic_is_flushed(const struct quic_connection *connection)
{
    for (unsigned i = 0; i < connection->stream_count; i++) {
        if (quic_stream_unsent(&connection->streams[i]->base) != 0) {
            return false;
        }
    }
    return true;
}

void quic_close(struct quic_connection *connection, uint64_t code, struct str reason)
{
    if (!connection->is_closing) {
        connection->is_closing = true;
        connection->close_code = code;
    }
}

void quic_hold(struct quic_connection *connection)
{
    connection->holds++;
}

void quic_unhold(struct quic_connection *connection)
{
    if (connection->holds-- == 0) {
        abort();
    }
}

void quic_abandon(struct quic_connection *connection, uint64_t code)
{
    quic_close(connection, code, STR_NONE);
}

void quic_keep_alive(struct quic_connection *connection, uint64_t every_ms)
{
}

uint64_t quic_idle_timeout_ms(const struct quic_connection *connection)
{
    return 30000;
}

uint64_t quic_heard_ms(const struct quic_connection *connection)
{
    return 0;
}

uint32_t quic_moves(const struct quic_connection *connection)
{
    return 0;
}

/* ---- what the test calls ---- */

static void fake_transport_close(struct conn *conn)
{
}

static const struct conn_transport fake_transport = {.close = fake_transport_close};

static struct quic_connection *fake_new(size_t step)
{
    static const struct conn_owner nobody = {.input = 0};
    static struct log_sink *sinks;
    static struct log log;
    struct quic_connection *connection = calloc(1, sizeof(*connection));
    struct addr peer = {.len = 0};

    log.sinks = sinks;
    if (connection == NULL) {
        abort();
    }
    connection->conn = conn_new(-1, &peer, &nobody, &log);
    connection->conn->transport = &fake_transport;
    connection->step = step;
    connection->alpn = "h3";
    return connection;
}

/* A connection to a server, which the test is. */
static inline struct quic_connection *fake_connect_backend(size_t step)
{
    struct quic_connection *connection = fake_new(step);

    connection->is_client = true;
    return connection;
}

/* A connection of a client that has said hello. */
static inline struct quic_connection *fake_connect(struct listener *listener,
                                                   const struct quic_service *service, size_t step)
{
    struct quic_connection *connection = fake_new(step);

    if (!service->began(listener, connection) || !service->accepted(listener, connection)) {
        abort();
    }
    return connection;
}

static struct fake_stream *fake_find(struct quic_connection *connection, uint64_t id)
{
    for (unsigned i = 0; i < connection->stream_count; i++) {
        if (connection->streams[i]->base.id == id) {
            return connection->streams[i];
        }
    }
    return NULL;
}

/* A turn in which streams were called ends. */
static void fake_called(struct quic_connection *connection)
{
    if (!connection->is_closing && connection->owner->streams_called != NULL) {
        connection->owner->streams_called(connection);
    }
}

/* The client's bytes; is_last: and FIN. */
static void fake_give(struct quic_connection *connection, uint64_t id, struct str bytes,
                      bool is_last)
{
    struct fake_stream *fake = fake_find(connection, id);

    if (connection->is_closing) {
        return;
    }
    if (fake == NULL) {
        fake = fake_make(connection, id);
        connection->owner->stream_opened(&fake->base);
    }
    if (fake->is_released || fake->has_fin || fake->base.is_input_reset) {
        return;
    }
    buf_append(&fake->input, bytes);
    fake->has_fin = is_last;
    fake_check_end(fake);
    connection->owner->readable(&fake->base);
    fake_called(connection);
}

static void fake_reset(struct quic_connection *connection, uint64_t id, uint64_t code)
{
    struct fake_stream *fake = fake_find(connection, id);

    if (fake != NULL && !fake->is_released && !fake->base.is_input_finished &&
        !connection->is_closing) {
        fake->base.is_input_reset = fake->base.is_input_finished = true;
        fake->base.input_code = code;
        fake->input.len = fake->consumed;
        connection->owner->readable(&fake->base);
        fake_called(connection);
    }
}

static void fake_stop(struct quic_connection *connection, uint64_t id, uint64_t code)
{
    struct fake_stream *fake = fake_find(connection, id);

    if (fake != NULL && !fake->is_released && !fake->base.is_output_stopped &&
        !connection->is_closing) {
        fake->base.is_output_stopped = true;
        fake->base.output_code = code;
        connection->owner->writable(&fake->base);
        fake_called(connection);
    }
}

static void fake_free(struct quic_connection *connection)
{
    for (unsigned i = 0; i < connection->stream_count; i++) {
        buf_free(&connection->streams[i]->input);
        buf_free(&connection->streams[i]->output);
        free(connection->streams[i]);
    }
    conn_close(connection->conn);
    free(connection);
}

static void fake_closed(struct quic_connection *connection)
{
    const struct quic_close how = {.end = QUIC_END_OWN, .code = connection->close_code};

    connection->was_closed = true;
    connection->owner->closed(connection, &how);
    for (unsigned i = 0; i < connection->stream_count; i++) {
        fake_release_all(connection->streams[i]);
    }
}

/* A turn of the loop: `step` bytes of each stream are sent and acknowledged. */
static void fake_turn(struct quic_connection *connection)
{
    for (unsigned i = 0; i < connection->stream_count && !connection->is_closing; i++) {
        struct fake_stream *fake = connection->streams[i];
        size_t unsent = fake->output.len - fake->sent;

        fake->sent += unsent < connection->step ? unsent : connection->step;
        unsent = fake->output.len - fake->sent;
        if (unsent == 0) {
            fake_release_all(fake);
        }
        if (fake->below != 0 && unsent < fake->below && !fake->is_released) {
            fake->below = 0;
            connection->owner->writable(&fake->base);
        }
    }
    fake_called(connection);
    if (connection->is_closing && !connection->was_closed) {
        fake_closed(connection);
    }
}

#endif
