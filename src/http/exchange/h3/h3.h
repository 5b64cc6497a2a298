/* HTTP/3 towards backends (RFC 9114): connections that many requests share, and the requests on
 * them. Implemented in channel.c, connection.c, control.c, input.c and send.c. */
#ifndef HTTP_EXCHANGE_H3_H3_H
#define HTTP_EXCHANGE_H3_H3_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "http/client/guards.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/coded_stream.h"
#include "http/message/h3_peer_streams.h"
#include "http/message/qpack.h"
#include "net/quic/quic.h"

/* ---- for the modules ---- */

/* The ALPN lists on offer, in wire form: HTTP/3, and HTTP/0.9 over QUIC (*_http3_hq). */
#define H3_ALPN STR_INIT("\2h3")
#define HQ_ALPN STR_INIT("\12hq-interop")

/* Makes x->head of it, and of the lines of a draft that head_draft_begin has begun. */
void h3_request_make(struct exchange *x, const struct coded_request *request,
                     struct head_draft *draft);

/* For struct protocol. */
extern const struct channel h3_channel;
void h3_send_head(struct exchange *x);
void h3_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);
enum head_result h3_read_head(struct exchange *x);
enum body_result h3_read_body(struct exchange *x, struct str *data);
enum body_result h3_body_ended(struct exchange *x);

/* ---- between the parts ---- */

/* A request on its way; in the request's arena, x->channel_state. */
struct h3_stream {
    struct coded_stream coded;        /* first: what HTTP/2 has of a request, too */
    struct h3_connection *connection; /* NULL between attempts */
    struct quic_stream *quic; /* NULL between attempts, and once the connection has closed */
    struct list link;         /* on connection->streams */

    /* The request. */
    struct str bytes; /* of its body: memory that lasts, not written to the QUIC stream yet */
    uint64_t written; /* bytes written to the QUIC stream */

    /* The response. */
    struct h3_input input;
    char *reading;     /* bytes of the body that the exchange has: READING_SIZE; or NULL */
    struct buf rest;   /* bytes of the body that came before the connection closed */
    size_t rest_read;  /* bytes of it: none or all */
    bool has_trailers; /* nothing but the end may follow */
};

/* What a backend may do on a connection, as client_guard_count has it. X(id, burst, rate, "what too
 * many of are logged as") */
#define H3_GUARDS(X)                                                                               \
    X(H3_GUARD_CONTROL, 100, 10, "control frames")                                                 \
    X(H3_GUARD_UNKNOWN, 1000, 100, "frames of unknown types")                                      \
    X(H3_GUARD_EMPTY, 1000, 100, "empty frames")                                                   \
    X(H3_GUARD_STREAMS, 100, 10, "streams of unknown types")                                       \
    X(H3_GUARD_COPIES, 2000, 200, "duplicates of compressed fields")

enum h3_guard { H3_GUARDS(CLIENT_GUARD_ID) H3_GUARD_COUNT };

/* Bytes of bodies that wait in a QUIC stream, above which no more is written. */
#define H3_UNSENT_MAX (64 * 1024)

/* A connection; upstream_connection.state. */
struct h3_connection {
    struct upstream_connection *connection;
    struct quic_connection *quic;
    const struct exchange_http3 *settings; /* of the location whose request made it */
    struct list streams;                   /* struct h3_stream */
    struct h3_peer_streams peer_streams;   /* the backend's of one direction */
    struct qpack_decoder decoder;
    struct quic_stream *control;        /* ours */
    struct quic_stream *decoder_stream; /* ours */
    uint64_t copies_seen;               /* of decoder.duplicated */
    uint64_t goaway_id; /* requests from this id on were not looked at; UINT64_MAX: no GOAWAY */
    uint64_t heard_ms;  /* when a frame of the control stream came, or 0 */
    struct client_guard guards[H3_GUARD_COUNT];
    bool has_settings; /* the backend's first frame came */
    bool is_alone;     /* one request, then it ends */
    bool is_bad;       /* a rule was broken: nothing more is read */
    bool is_closed;    /* QUIC has closed it */
};

static inline struct h3_stream *h3_stream_of(const struct exchange *x)
{
    return x->channel_state;
}

static inline struct h3_connection *h3_connection_of(const struct upstream_connection *connection)
{
    return connection->state;
}

static inline bool h3_connection_is_sound(const struct h3_connection *c)
{
    return !c->is_bad && !c->is_closed;
}

/* Is it HTTP/0.9? */
static inline bool h3_is_hq(const struct exchange *x)
{
    return x->settings->http3.hq;
}

/* ---- connection.c ---- */

/* For the connection of an exchange, which is fresh. It may have failed: logged. */
struct h3_connection *h3_connection_new(struct exchange *x);
/* Opens a QUIC stream for it. False: it cannot be on this connection; logged, unless that had
 * failed or ended before. */
bool h3_connection_enter(struct h3_connection *c, struct h3_stream *stream);
void h3_connection_leave(struct h3_connection *c, struct h3_stream *stream);
/* How many requests may be on it from now on, `leaving` of those on it left out. */
void h3_connection_allow(struct h3_connection *c, unsigned leaving);
/* A rule was broken: all requests on the connection are in vain. Logged with them. */
void h3_connection_fail(struct h3_connection *c, uint64_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts one. False: that was one too many, the connection has failed. */
bool h3_guard(struct h3_connection *c, enum h3_guard guard);

/* ---- control.c ---- */

/* Our streams of one direction, and our settings. False: the backend allows fewer streams than that
 * takes. */
bool h3_control_begin(struct h3_connection *c);
/* The backend's streams of one direction. */
extern const struct h3_peer_rules h3_backend_rules;
/* No more is read of a stream: the backend's encoder does not wait for acknowledgments of its
 * sections (RFC 9204, 4.4.2). */
void h3_cancel_sections(struct h3_connection *c, const struct quic_stream *quic);

/* ---- input.c ---- */

/* Works on what has come, up to bytes of a body, which are left to h3_stream_take. */
void h3_stream_read(struct h3_stream *stream);
/* Up to `most` bytes of the body that are there are copied to `at`. */
size_t h3_stream_take(struct h3_stream *stream, char *at, size_t most);
/* The connection has closed: all that has come is kept, the QUIC stream ends. */
void h3_stream_closed(struct h3_stream *stream);

/* ---- send.c ---- */

/* Bytes of the body that are not sent. */
uint64_t h3_stream_unsent(const struct h3_stream *stream);
/* May no more bytes of the body be written for now? */
bool h3_stream_is_full(const struct h3_stream *stream);
/* Writes what the QUIC stream has room for. */
void h3_stream_pump(struct h3_stream *stream);
/* Nothing more of its body is sent. */
void h3_stream_drop_body(struct h3_stream *stream);

#endif
