/* HTTP/2 connections to backends: who is on them, what they were told, how they end. */
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

void h2_put_frame(struct h2_link *link, uint8_t type, uint8_t flags, uint32_t stream,
                  struct str payload)
{
    struct conn *conn = link->link->conn;
    char head[FRAME_HEAD_SIZE];

    frame_put(head, (uint32_t) payload.len, type, flags, stream);
    conn_write(conn, (struct str){head, sizeof(head)});
    conn_write(conn, payload);
    conn_flush_later(conn);
}

void h2_put_number(struct h2_link *link, uint8_t type, uint32_t stream, uint32_t number)
{
    char payload[4];

    put_u32(payload, number);
    h2_put_frame(link, type, 0, stream, (struct str){payload, sizeof(payload)});
}

void h2_link_begin(struct h2_link *link, struct str announcement)
{
    struct conn *conn = link->link->conn;
    char settings[18];
    char *at = settings;

    at = put_u32(put_u16(at, SETTING_HEADER_TABLE_SIZE), 0);
    at = put_u32(put_u16(at, SETTING_ENABLE_PUSH), 0);
    at = put_u32(put_u16(at, SETTING_INITIAL_WINDOW_SIZE), H2_STREAM_WINDOW);
    conn_write(conn, announcement);
    conn_write(conn, STR(V2_PREFACE));
    h2_put_frame(link, FRAME_SETTINGS, 0, 0, str_from(settings, at));
    h2_put_number(link, FRAME_WINDOW_UPDATE, 0, WINDOW_OF_ALL);
    link->recv_window = WINDOW_DEFAULT + (int64_t) WINDOW_OF_ALL;
    link->has_begun = true;
}

/* ---- what goes wrong ---- */

void h2_stream_wake(struct h2_stream *stream)
{
    stream->has_news = true;
    wait_signal_later(&stream->wake);
}

/* The fiber that uploads goes on, too: to find that nobody wants more. */
static void end_stream(struct h2_stream *stream)
{
    h2_stream_drop_body(stream);
    h2_stream_wake(stream);
}

void h2_stream_fail(struct h2_stream *stream, const char *format, ...)
{
    char text[512];
    va_list args;

    if (stream->is_bad) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    exchange_log(stream->x, LOG_ERROR, 0, "%s", text);
    stream->is_bad = true;
    end_stream(stream);
}

void h2_stream_refuse(struct h2_stream *stream)
{
    struct exchange *x = stream->x;

    stream->is_refused = x->was_refused = true;
    if (!x->streams_body || upload_is_kept(x)) {
        x->has_sent = stream->had_sent; /* it may be repeated, whatever its method */
    }
    end_stream(stream);
}

void h2_link_fail(struct h2_link *link, enum v2_error error, const char *format, ...)
{
    char text[512], payload[8];
    bool is_shared = link->link->users > 1;
    va_list args;

    if (link->is_bad) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    link->is_bad = true;
    link->link->is_doomed = true;
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = link->streams[i]; stream != NULL; stream = stream->next) {
            exchange_log(stream->x, LOG_ERROR, 0, "%s", text);
            /* Who has heard nothing may ask elsewhere: for that request the connection just ended. */
            stream->is_bad = stream->has_heard || !is_shared;
            end_stream(stream);
        }
    }
    if (link->has_begun) {
        put_u32(put_u32(payload, 0), error);
        h2_put_frame(link, FRAME_GOAWAY, 0, 0, (struct str){payload, sizeof(payload)});
    }
}

static void wake_all(struct h2_link *link)
{
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = link->streams[i]; stream != NULL; stream = stream->next) {
            wait_signal_later(&stream->room);
            h2_stream_wake(stream);
        }
    }
}

/* ---- what the connection tells ---- */

/* False: there is nothing more to come. */
static bool read_all(struct h2_link *link)
{
    struct conn *conn = link->link->conn;

    while (!link->is_bad && conn_fill(conn, READ_MIN, READ_MAX)) {
        h2_link_receive(link);
        if (conn_unsent(conn) > UNREAD_CONTROL_MAX + H2_UNSENT_MAX) {
            h2_link_fail(link, V2_ENHANCE_YOUR_CALM, "upstream does not read what it asks for");
        }
    }
    conn_input_release(conn);
    if (!link->is_bad) {
        h2_link_pump(link);
    }
    return h2_link_is_sound(link);
}

static void link_input(struct conn *conn)
{
    struct upstream_link *upstream = conn->user;
    struct h2_link *link = h2_link_of(upstream);

    if (!read_all(link)) {
        upstream->is_doomed = true;
        wake_all(link);
    }
}

/* While nobody is on it: control frames are answered. */
static bool link_rests(struct upstream_link *upstream)
{
    struct h2_link *link = h2_link_of(upstream);

    return read_all(link) && link->goaway_id == UINT32_MAX && link->peer_streams != 0;
}

static void link_drained(struct conn *conn)
{
    struct upstream_link *upstream = conn->user;
    struct h2_link *link = h2_link_of(upstream);

    h2_link_pump(link);
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = link->streams[i]; stream != NULL; stream = stream->next) {
            wait_signal_later(&stream->room);
        }
    }
}

static const struct conn_owner h2_owner = {.input = link_input, .drained = link_drained};

/* ---- who is on it ---- */

static void link_free(struct upstream_link *upstream)
{
    struct h2_link *link = h2_link_of(upstream);

    upstream->state = NULL;
    buf_free(&link->block);
    free(link);
}

struct h2_link *h2_link_new(struct upstream_link *upstream)
{
    struct h2_link *link = calloc(1, sizeof(*link));

    if (link == NULL) {
        fatal_no_memory(sizeof(*link));
    }
    link->link = upstream;
    list_init(&link->senders);
    link->next_id = 1;
    link->goaway_id = UINT32_MAX;
    link->peer_streams = H2_STREAMS_MAX;
    link->send_window = WINDOW_DEFAULT;
    link->peer_window = WINDOW_DEFAULT;
    upstream->state = link;
    upstream->state_free = link_free;
    upstream->rest_input = link_rests;
    upstream->conn->owner = &h2_owner;
    return link;
}

static struct h2_stream **bucket_of(struct h2_link *link, uint32_t id)
{
    return &link->streams[(id >> 1) % H2_BUCKETS];
}

struct h2_stream *h2_stream_find(const struct h2_link *link, uint32_t id)
{
    struct h2_stream *stream = *bucket_of((struct h2_link *) link, id);

    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

bool h2_link_enter(struct h2_link *link, struct h2_stream *stream)
{
    if (!h2_link_is_sound(link) || link->goaway_id != UINT32_MAX || link->peer_streams == 0 ||
        link->next_id >= (uint32_t) WINDOW_MAX) {
        link->link->is_doomed = true;
        return false;
    }
    struct h2_stream **bucket = bucket_of(link, link->next_id);
    stream->link = link;
    stream->id = link->next_id;
    stream->send_window = link->peer_window;
    stream->recv_window = H2_STREAM_WINDOW;
    stream->next = *bucket;
    *bucket = stream;
    link->next_id += 2;
    link->strays = 0;
    return true;
}

void h2_link_leave(struct h2_link *link, struct h2_stream *stream)
{
    struct h2_stream **at = bucket_of(link, stream->id);

    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    list_remove(&stream->in_senders);
    stream->id = 0;
}
