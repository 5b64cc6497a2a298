/* HTTP/2 towards backends (RFC 9113): connections that many requests share, and the requests on
 * them. */
#ifndef HTTP_EXCHANGE_H2_H2_H
#define HTTP_EXCHANGE_H2_H2_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/coded_stream.h"
#include "http/message/frame.h"

/* ---- for the modules ---- */

/* The ALPN list on offer, in wire form. */
#define H2_ALPN STR_INIT("\2h2")

/* Makes x->head of it, and of the lines of a draft that head_draft_begin has begun. */
void h2_request_make(struct exchange *x, const struct coded_request *request,
                     struct head_draft *draft);

/* For struct protocol. */
extern const struct channel h2_channel;
void h2_send_head(struct exchange *x);
void h2_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);
enum head_result h2_read_head(struct exchange *x);
enum body_result h2_read_body(struct exchange *x, struct str *data);
enum body_result h2_body_ended(struct exchange *x);

/* ---- between the parts ---- */

/* Bytes of a response's body. */
struct h2_bytes {
    char *data; /* from conn_buffer_alloc, or NULL */
    uint32_t size, start, end;
};

/* A request on its way; in the request's arena, x->channel_state. */
struct h2_stream {
    struct coded_stream coded;        /* first: what HTTP/3 has of a request, too */
    struct h2_connection *connection; /* NULL between attempts */
    struct h2_stream *next;           /* in its bucket */
    struct list in_senders;           /* on connection->senders while there is body to be sent */
    uint32_t id;                      /* 0 = none */

    /* The request's body, as far as it was given and is not in frames. */
    struct buf kept;  /* copies of pieces that do not last */
    struct str bytes; /* what is to go next: in kept, or in memory that lasts */
    int fd;           /* file whose bytes go next; -1 = none */
    off_t offset;
    uint64_t file_left;
    bool is_waiting; /* for its window: not among the senders */
    int64_t send_window;
    uint64_t moved_ms;          /* when the last DATA frame of the body was queued */
    uint64_t heard_ms;          /* when the backend opened its window, or 0 */
    struct output_share framed; /* bytes of frames of this stream */

    /* The response. */
    struct h2_bytes reading, arriving;
    int64_t recv_window; /* bytes that the backend may still send */
    uint32_t taken;      /* bytes of it that were read since the last WINDOW_UPDATE */
    bool is_closed;      /* RST_STREAM with NO_ERROR came */
};

#define H2_BUCKETS 32
#define H2_STREAMS_MAX 32             /* requests on one connection; more than these have another */
#define H2_STREAM_WINDOW (256 * 1024) /* bytes of a response that may come before it is read */
#define H2_UNSENT_MAX (128 * 1024)    /* bytes in the connection's queue, above which bodies wait */

/* A connection; upstream_connection.state. Response heads use no dynamic table: it was forbidden.
 */
struct h2_connection {
    struct upstream_connection *connection;
    struct h2_stream *streams[H2_BUCKETS]; /* by id */
    struct list senders;                   /* streams with body to send, whose turn comes */
    uint32_t next_id;                      /* of the next stream */
    uint32_t goaway_id;    /* streams above it were not looked at; UINT32_MAX = no GOAWAY */
    uint32_t peer_streams; /* streams at a time that the backend allows */
    int64_t send_window;   /* bytes of DATA of all streams */
    int64_t recv_window;
    int64_t peer_window;   /* a new stream's send_window */
    uint64_t heard_ms;     /* when a frame of the connection itself came, or 0 */
    uint64_t own_received; /* bytes of frames beside the responses that no attempt has counted */

    /* A header block that is not whole yet. */
    struct buf block;
    uint32_t block_stream; /* 0 = none is open */
    uint32_t block_frames; /* CONTINUATIONs of it */
    bool block_ends;       /* HEADERS had END_STREAM */
    bool is_block_dropped; /* it is too long: its bytes are not kept */

    uint32_t strays;      /* frames for streams that are gone, in a row */
    bool is_alone;        /* one request, then it ends */
    bool has_begun;       /* the preface was queued */
    bool has_settings;    /* the backend's first frame came */
    bool has_table_limit; /* to be acknowledged in the next header block (RFC 7541, 4.2) */
    bool is_bad;          /* a rule was broken: nothing more is believed */
};

static inline struct h2_stream *h2_stream_of(const struct exchange *x)
{
    return x->channel_state;
}

static inline struct h2_connection *h2_connection_of(const struct upstream_connection *connection)
{
    return connection->state;
}

static inline bool h2_connection_is_sound(const struct h2_connection *connection)
{
    const struct conn *conn = connection->connection->conn;

    return !connection->is_bad && !conn->is_broken && !conn->is_input_closed;
}

/* ---- connection.c ---- */

struct h2_connection *h2_connection_new(struct upstream_connection *connection);
struct h2_stream *h2_stream_find(const struct h2_connection *connection, uint32_t id);
/* Gives the stream a number. False: it cannot be on this connection. */
bool h2_connection_enter(struct h2_connection *connection, struct h2_stream *stream);
void h2_connection_leave(struct h2_connection *connection, struct h2_stream *stream);
/* The preface and our settings. */
void h2_connection_begin(struct h2_connection *connection, struct str announcement);
/* A rule was broken: all requests on the connection are in vain. Logged with them. */
void h2_connection_fail(struct h2_connection *connection, enum v2_error error, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
void h2_put_frame(struct h2_connection *connection, uint8_t type, uint8_t flags, uint32_t stream,
                  struct str payload);
void h2_put_number(struct h2_connection *connection, uint8_t type, uint32_t stream,
                   uint32_t number);

/* ---- frames.c ---- */

/* Uses the frames that have arrived whole. */
void h2_connection_receive(struct h2_connection *connection);

/* ---- response.c ---- */

/* A header block is whole. */
void h2_take_block(struct h2_stream *stream, struct str block, bool is_end);
/* The attempt counts the frames that are no part of a response (SETTINGS, PING, WINDOW_UPDATE and
 * the like) and came since one counted them. */
void h2_count_own(struct h2_connection *connection, struct exchange *x);
void h2_bytes_free(struct h2_bytes *bytes);
void h2_bytes_add(struct h2_bytes *bytes, struct str data);

/* ---- send.c ---- */

/* May more bytes of bodies be queued? If not, the connection's owner hears when the queue is empty.
 */
bool h2_connection_has_room(struct h2_connection *connection);
/* Sends what windows and the socket allow. */
void h2_connection_pump(struct h2_connection *connection);
/* Its window has grown. */
void h2_stream_may_send(struct h2_stream *stream);
/* Nothing more of its body is sent. */
void h2_stream_drop_body(struct h2_stream *stream);
/* Bytes given that are not in frames. */
uint64_t h2_stream_pending(const struct h2_stream *stream);

#endif
