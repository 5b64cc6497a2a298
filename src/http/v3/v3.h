/* HTTP/3 on the wire (RFC 9114): what the parts of this folder know of each other.
 * Implemented in body.c, connection.c, control.c, guards.c, head.c, input.c, module.c, send.c,
 * send_body.c, send_head.c and streams.c. */
#ifndef HTTP_V3_V3_H
#define HTTP_V3_V3_H

#include <stdbool.h>
#include <stdint.h>

#include "http/client/connection.h"
#include "http/client/guards.h"
#include "http/client/protocol.h"
#include "http/message/h3_peer_streams.h"
#include "http/message/qpack.h"
#include "http/request/known_host.h"
#include "http/request/wire.h"
#include "net/quic/quic.h"
#include "net/quic/token.h"

/* ngx_http_v3_module, server level. A member without a comment is the value of the directive of its
 * name. */
struct v3_settings {
    bool http3;
    bool http3_hq; /* HTTP/0.9 over QUIC, for tests of the transport */
    bool quic_gso;
    bool quic_retry;
    int64_t http3_max_concurrent_streams;
    int64_t quic_active_connection_id_limit;
    uint64_t http3_stream_buffer_size;
    struct str quic_host_key;                      /* path of the file */
    struct str host_key;                           /* content of that file */
    struct quic_server_id *quic_server_id;         /* NULL: none */
    struct quic_preferred *quic_preferred_address; /* NULL: none */
    unsigned congestion;                           /* quic_congestion_control: enum v3_congestion */
    unsigned alt_svc;                              /* http3_alt_svc: enum v3_alt_svc */
    const struct quic_settings *transport; /* what QUIC needs of these, made when all is read */
};
enum v3_congestion { V3_CUBIC, V3_BBR };
enum v3_alt_svc { V3_ALT_SVC_OFF, V3_ALT_SVC_AUTO };
extern struct settings_key v3_server_key;

/* ---- options.c ---- */

/* Applies of quic_server_id and quic_preferred_address. */
bool v3_server_id_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);
bool v3_preferred_address_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings);

static inline struct v3_settings *v3_settings_of(const struct http_server *server)
{
    return server_settings(server, &v3_server_key);
}

/*
 * What a client may do: at most `burst` at once and `rate` a second after that. One list serves the
 * enum, the limits and the log line. X(id, burst, rate, "what too many of are logged as")
 */
#define V3_GUARDS(X)                                                                               \
    X(V3_GUARD_RESETS, 200, 20, "streams that it cancelled")                                       \
    X(V3_GUARD_ERRORS, 200, 20, "streams with errors")                                             \
    X(V3_GUARD_REFUSED, 1000, 100, "requests after GOAWAY")                                        \
    X(V3_GUARD_CONTROL, 100, 10, "control frames")                                                 \
    X(V3_GUARD_PRIORITIES, 1000, 200, "PRIORITY_UPDATE frames")                                    \
    X(V3_GUARD_EMPTY, 100, 20, "empty frames")                                                     \
    X(V3_GUARD_TINY, 10000, 2000, "DATA frames of a few bytes")                                    \
    X(V3_GUARD_UNKNOWN, 1000, 100, "frames of unknown types")                                      \
    X(V3_GUARD_STREAMS, 100, 10, "streams of unknown types")                                       \
    X(V3_GUARD_COPIES, 2000, 200, "duplicates of compressed fields")                               \
    X(V3_GUARD_FEEDBACK, 10000, 2000, "cancellations of compressed fields")

enum v3_guard { V3_GUARDS(CLIENT_GUARD_ID) V3_GUARD_COUNT };

#define V3_ACTION "processing HTTP/3 connection" /* of log lines */
#define V3_BLOCKED_MAX 16 /* streams that may wait for entries: SETTINGS_QPACK_BLOCKED_STREAMS */
#define V3_STARTS_MAX 16  /* requests that are started together */
#define V3_PRIORITIES_KEPT 16 /* PRIORITY_UPDATE frames for streams that have not begun */

#define V3_ONE_WAY_MAX                                                                             \
    8 /* streams of one direction that a client may have open: three, and some that mean nothing   \
       */

#define V3_CONNECTION_MAGIC 0x43c033c7u

/* A PRIORITY_UPDATE that came before its stream. */
struct v3_early {
    uint64_t id; /* with is_used; at id / 4 % V3_PRIORITIES_KEPT, the newest */
    bool is_used;
    uint8_t urgency;
    bool is_incremental;
};

/* How near to its end a connection is: it goes one way only. */
enum v3_phase {
    V3_OPEN,
    V3_DRAINING,   /* a request came after QUIT (`shutdown_delay`): it is the last one */
    V3_GOING_AWAY, /* GOAWAY was sent */
    V3_FAILED,     /* with an error, or it was closed by us: nothing more is read */
    V3_CLOSED,     /* `closed` was called: there are no QUIC streams any more */
};

/* A connection; freed when QUIC has closed it and its last request was recycled. */
struct v3_connection {
    uint32_t magic;
    uint32_t moves; /* of the client (quic_moves), when its last request began */
    struct http_connection *connection;
    struct quic_connection *quic;
    const struct v3_settings *settings; /* of the server that the handshake named */
    struct qpack_decoder decoder;
    struct qpack_encoder encoder;
    struct quic_stream *control;         /* ours */
    struct quic_stream *encoder_stream;  /* ours */
    struct quic_stream *decoder_stream;  /* ours */
    struct h3_peer_streams peer_streams; /* the client's of one direction */
    struct list streams;                 /* struct v3_stream: whose requests have not ended */
    struct list blocked;  /* struct v3_stream: those that wait for entries of the table */
    struct list finished; /* struct v3_stream: whose requests have ended and are not recycled */
    struct list
        starting; /* struct v3_stream: whose heads were read in this turn, up to V3_STARTS_MAX */
    uint32_t stream_count;
    uint32_t error;         /* that the connection fails with; 0 = none */
    uint64_t next_stream;   /* above the highest of the client's requests so far */
    const char *reason;     /* for the log; or NULL */
    uint64_t goaway_stream; /* of GOAWAY: requests from this id on are refused */
    struct timer idle_timer;
    uint64_t answered_ms;    /* when all of the last response had been acknowledged; 0 = none yet */
    uint64_t flush_until_ms; /* the client has had time to acknowledge the last response */
    struct h3_settings peer; /* once has_settings */
    struct head_limits limits; /* of heads: those of the server, without client_header_buffer_size,
                                  as nginx has it */
    struct known_host known_host;
    uint64_t copies_seen;   /* of decoder.duplicated */
    uint64_t feedback_seen; /* of encoder.cancelled */
    struct v3_early *early; /* V3_PRIORITIES_KEPT; owned; NULL until the first is kept */
    struct client_guard guards[V3_GUARD_COUNT];
    uint8_t starting_count;
    uint8_t blocked_count; /* up to V3_BLOCKED_MAX */
    bool has_settings;     /* the client's were read */
    bool is_hq;            /* HTTP/0.9, without frames */
    bool is_begun;         /* our streams are open */
    enum v3_phase phase;
    bool is_writing;  /* counted as being answered */
    bool was_refused; /* worker_requests were not enough: logged once */
};

/* A request's stream; from malloc, freed when it is recycled. */
struct v3_stream {
    struct v3_connection *connection;
    struct quic_stream *quic; /* NULL once it was released, or the connection has closed */
    struct request *request;  /* NULL until a field section has begun to be decoded */
    struct stream_head *head; /* what was decoded of the section; in the request's arena */
    uint64_t id;
    struct list link;         /* on connection->streams or finished */
    struct list blocked_node; /* on connection->blocked, or empty */
    struct list start_node;   /* on connection->starting, or empty */
    struct h3_input input;
    struct timer timer; /* the client has to send its head, or to take something, until then */
    struct wait_point reader; /* the fiber that reads the body */
    struct wait_point writer; /* the fiber that sends */
    uint64_t body_bytes;      /* of the request's body */
    uint64_t given;           /* bytes written to the stream, heads of frames included */
    uint64_t sent_seen;  /* bytes of the stream that had been sent when the client's time began */
    uint64_t until_ms;   /* its end, while a response waits for the client only; else 0 */
    uint32_t references; /* pieces of the response that the transport refers to */
    uint8_t urgency;     /* RFC 9218: 0 first, 7 last */
    bool is_incremental;
    bool has_head;        /* the request's head was read */
    bool has_trailers;    /* the trailers were read: nothing may follow */
    bool is_input_ended;  /* the end of the request was read */
    bool is_output_ended; /* the end of the response was given */
    bool is_reset;        /* by either side, or the connection has failed */
    bool is_websocket;    /* extended CONNECT (RFC 9220) */
    bool is_body_wanted;  /* somebody reads the body */
    bool is_body_broken;  /* it came to its end in disorder: see error */
    bool is_leaving;      /* all that is still to be given is in memory or in files */
    bool has_ended;       /* its fiber has */
    bool is_logged;
    uint64_t error; /* that the stream is reset with at its end; 0 = none */
};

extern const struct http_wire v3_wire;
extern const struct http_wire hq_wire;
extern const struct http_protocol v3_protocol;

/* Does this server speak HTTP/3 on its addresses with `quic`? */
bool v3_is_on(const struct http_server *server); /* settings.c */

/* connection.c */
/* For struct quic_service. */
bool v3_began(struct listener *listener, struct quic_connection *quic);
bool v3_accepted(struct listener *listener, struct quic_connection *quic);
/* Something changed: recycles, rests or closes, at the end of this turn. */
static inline void v3_settle_later(struct v3_connection *c)
{
    loop_defer(&c->connection->settle);
}

/* guards.c */
/* The connection ends with this error (RFC 9114, 8); requests are cancelled. Logs "client …". */
void v3_fail(struct v3_connection *c, uint64_t error, const char *reason);
/* Counts one. False: that was one too many, the connection has failed. */
bool v3_guard(struct v3_connection *c, enum v3_guard guard);
/* Something good happened that weighs against one of them. */
static inline void v3_appease(struct v3_connection *c, enum v3_guard guard)
{
    client_guard_appease(&c->guards[guard], 1);
}
/* Ends the connection with H3_EXCESSIVE_LOAD: "client sent too many …". */
void v3_guard_failed(struct v3_connection *c, const char *what);

/* send.c */
/* No further streams; those that are open are answered. */
void v3_go_away(struct v3_connection *c);
/* Instructions of our encoder and decoder leave. */
void v3_send_instructions(struct v3_connection *c);

/* table.c */
struct v3_stream *v3_find(const struct v3_connection *c, uint64_t id);
void v3_prioritise(struct v3_stream *stream, uint8_t urgency, bool is_incremental);

/* control.c: streams of one direction. */
void v3_control_begin(struct v3_connection *c);
/* All that is kept of them is freed. */
/* The client's streams of one direction. */
extern const struct h3_peer_rules v3_peer_rules;

/* input.c: frames of requests. */
/* Works on what has come, up to bytes of a body, which are left to who reads it. */
void v3_stream_read(struct v3_stream *stream);
/* Entries have come: a section that was blocked may be decoded now. */
void v3_stream_unblocked(struct v3_stream *stream);

/* head.c */
/* Starts the request if its head was read and it has not been started. */
void v3_start(struct v3_stream *stream);
/* Starts all requests that wait for it. */
void v3_start_all(struct v3_connection *c);
enum v3_section {
    V3_SECTION_WHOLE,
    V3_SECTION_BLOCKED, /* entries of the table have to come first */
    V3_SECTION_FAILED,  /* the connection has failed, or the stream is gone */
};
/* Decodes a field section: the head of a new request, or trailers. */
enum v3_section v3_section_decode(struct v3_stream *stream, struct str block);
/* A section was decoded and its frame consumed: the request begins, or has its trailers. */
void v3_section_done(struct v3_stream *stream);
/* A head that cannot be read: the request is refused, or a stream with such trailers reset. */
void v3_refuse_head(struct v3_stream *stream, unsigned status, const char *reason);
/* HTTP/0.9: the line of a request. */
void hq_take_line(struct v3_stream *stream, struct str line);

/* body.c */
ssize_t v3_read_body(struct request *request, void *at, size_t size);
/* The request has ended: is its body what was announced? */
void v3_body_ended(struct v3_stream *stream);

/* streams.c */
void v3_stream_opened(struct v3_connection *c, struct quic_stream *quic);
/* A stream whose request has not begun ends, with this error. It is freed. */
void v3_stream_drop(struct v3_stream *stream, uint64_t error);
/* No more of it is read: the client's encoder does not wait for acknowledgments of its sections
 * (RFC 9204, 4.4.2). */
void v3_cancel_sections(struct v3_stream *stream);
/* Bytes of it that have been sent. */
static inline uint64_t v3_sent(const struct v3_stream *stream)
{
    return stream->quic == NULL || stream->is_reset
               ? stream->given
               : stream->given - quic_stream_unsent(stream->quic);
}
void v3_request_ended(struct request *request, enum handler_result result);
/* `readable` and `writable` of its QUIC stream. */
void v3_stream_readable(struct v3_stream *stream);
void v3_stream_writable(struct v3_stream *stream);
/* The connection is closed: the stream has none of QUIC's any more. */
void v3_stream_closed(struct v3_stream *stream);
/* The stream is reset with this error, its request is cancelled. */
void v3_reset(struct v3_stream *stream, uint64_t error);
/* The request ends without a word to the client. */
void v3_cancel(struct v3_stream *stream);
/* Logs and frees requests whose bytes are sent. */
void v3_recycle(struct v3_connection *c);

/* send_head.c */
void v3_send_head(struct request *request);
void v3_send_interim(struct request *request, unsigned status, const struct fields *fields);
void v3_send_trailers(struct v3_stream *stream);

/* send_body.c */
bool v3_send_body(struct request *request, const struct body_piece *piece, bool is_last);
/* The end of the response: trailers where there are some. */
void v3_send_end(struct v3_stream *stream);

#endif
