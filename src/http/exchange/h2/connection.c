/* HTTP/2 connections to backends: the requests on them, their frames, how they end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "http/exchange/h2/h2.h"
#include "upstream/peer.h"

#define READ_MIN (16 * 1024)
#define READ_MAX (64 * 1024)
#define WINDOW_OF_ALL 0x7fff0000         /* bytes that all responses together may have under way */
#define UNREAD_CONTROL_MAX (1024 * 1024) /* of our answers to a backend that does not read them */

/* ---- frames of ours ---- */

void h2_put_frame(struct h2_connection *connection, uint8_t type, uint8_t flags, uint32_t stream,
                  struct str payload)
{
    struct conn *conn = connection->connection->conn;
    char head[FRAME_HEAD_SIZE];

    frame_put(head, (uint32_t) payload.len, type, flags, stream);
    conn_write(conn, (struct str){head, sizeof(head)});
    conn_write(conn, payload);
    conn_flush_later(conn);
}

void h2_put_number(struct h2_connection *connection, uint8_t type, uint32_t stream, uint32_t number)
{
    char payload[4];

    put_u32(payload, number);
    h2_put_frame(connection, type, 0, stream, (struct str){payload, sizeof(payload)});
}

void h2_connection_begin(struct h2_connection *connection, struct str announcement)
{
    struct conn *conn = connection->connection->conn;
    char settings[18];
    char *at = settings;

    at = put_u32(put_u16(at, SETTING_HEADER_TABLE_SIZE), 0);
    at = put_u32(put_u16(at, SETTING_ENABLE_PUSH), 0);
    at = put_u32(put_u16(at, SETTING_INITIAL_WINDOW_SIZE), H2_STREAM_WINDOW);
    conn_write(conn, announcement);
    conn_write(conn, STR(V2_PREFACE));
    h2_put_frame(connection, FRAME_SETTINGS, 0, 0, str_from(settings, at));
    h2_put_number(connection, FRAME_WINDOW_UPDATE, 0, WINDOW_OF_ALL);
    connection->recv_window = WINDOW_DEFAULT + (int64_t) WINDOW_OF_ALL;
    connection->has_begun = true;
}

/* ---- what goes wrong ---- */

void h2_connection_fail(struct h2_connection *connection, enum v2_error error, const char *format,
                        ...)
{
    char text[512], payload[8];
    bool is_shared = connection->connection->users > 1;
    va_list args;

    if (connection->is_bad) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    connection->is_bad = true;
    connection->connection->is_doomed = true;
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = connection->streams[i]; stream != NULL;
             stream = stream->next) {
            coded_stream_lose(&stream->coded, text, is_shared);
        }
    }
    if (connection->has_begun) {
        put_u32(put_u32(payload, 0), error);
        h2_put_frame(connection, FRAME_GOAWAY, 0, 0, (struct str){payload, sizeof(payload)});
    }
}

static void wake_all(struct h2_connection *connection)
{
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = connection->streams[i]; stream != NULL;
             stream = stream->next) {
            wait_signal_later(&stream->coded.room);
            coded_stream_wake(&stream->coded);
        }
    }
}

/* ---- what the connection reports ---- */

/* False: there is nothing more to come. */
static bool read_all(struct h2_connection *connection)
{
    struct conn *conn = connection->connection->conn;

    while (!connection->is_bad && conn_fill(conn, READ_MIN, READ_MAX)) {
        h2_connection_receive(connection);
        if (conn_unsent(conn) > UNREAD_CONTROL_MAX + H2_UNSENT_MAX) {
            h2_connection_fail(connection, V2_ENHANCE_YOUR_CALM,
                               "upstream does not read what it asks for");
        }
    }
    conn_input_release(conn);
    if (!connection->is_bad) {
        h2_connection_pump(connection);
    }
    return h2_connection_is_sound(connection);
}

static void backend_input(struct conn *conn)
{
    struct upstream_connection *upstream = conn->user;
    struct h2_connection *connection = h2_connection_of(upstream);

    if (!read_all(connection)) {
        upstream->is_doomed = true;
        wake_all(connection);
    }
}

/* While nobody is on it: control frames are answered. */
static bool backend_idle_input(struct upstream_connection *upstream)
{
    struct h2_connection *connection = h2_connection_of(upstream);

    return read_all(connection) && connection->goaway_id == UINT32_MAX &&
           connection->peer_streams != 0;
}

static void backend_drained(struct conn *conn)
{
    struct upstream_connection *upstream = conn->user;
    struct h2_connection *connection = h2_connection_of(upstream);

    h2_connection_pump(connection);
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = connection->streams[i]; stream != NULL;
             stream = stream->next) {
            wait_signal_later(&stream->coded.room);
        }
    }
}

static const struct conn_owner h2_owner = {.input = backend_input, .drained = backend_drained};

/* ---- who is on it ---- */

static void upstream_connection_free(struct upstream_connection *upstream)
{
    struct h2_connection *connection = h2_connection_of(upstream);

    upstream->state = NULL;
    buf_free(&connection->block);
    free(connection);
}

struct h2_connection *h2_connection_new(struct upstream_connection *upstream)
{
    struct h2_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL) {
        fatal_no_memory(sizeof(*connection));
    }
    connection->connection = upstream;
    list_init(&connection->senders);
    connection->next_id = 1;
    connection->goaway_id = UINT32_MAX;
    connection->peer_streams = H2_STREAMS_MAX;
    connection->send_window = WINDOW_DEFAULT;
    connection->peer_window = WINDOW_DEFAULT;
    upstream->state = connection;
    upstream->state_free = upstream_connection_free;
    upstream->idle_input = backend_idle_input;
    upstream->conn->owner = &h2_owner;
    return connection;
}

static struct h2_stream **h2_connection_bucket_of(struct h2_connection *connection, uint32_t id)
{
    return &connection->streams[(id >> 1) % H2_BUCKETS];
}

struct h2_stream *h2_stream_find(const struct h2_connection *connection, uint32_t id)
{
    struct h2_stream *stream = *h2_connection_bucket_of((struct h2_connection *) connection, id);

    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

bool h2_connection_enter(struct h2_connection *connection, struct h2_stream *stream)
{
    if (!h2_connection_is_sound(connection) || connection->goaway_id != UINT32_MAX ||
        connection->peer_streams == 0 || connection->next_id >= (uint32_t) WINDOW_MAX) {
        connection->connection->is_doomed = true;
        return false;
    }
    struct h2_stream **bucket = h2_connection_bucket_of(connection, connection->next_id);
    stream->connection = connection;
    stream->id = connection->next_id;
    stream->send_window = connection->peer_window;
    stream->recv_window = H2_STREAM_WINDOW;
    stream->next = *bucket;
    *bucket = stream;
    connection->next_id += 2;
    connection->strays = 0;
    return true;
}

void h2_connection_leave(struct h2_connection *connection, struct h2_stream *stream)
{
    struct h2_stream **at = h2_connection_bucket_of(connection, stream->id);

    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    list_remove(&stream->in_senders);
    stream->id = 0;
}
