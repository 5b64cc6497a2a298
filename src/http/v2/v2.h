/* HTTP/2 on the wire: the faces of this folder's parts to each other.
 * Implemented in body.c, connection.c, data.c, drain.c, errors.c, flow.c, head.c, input.c,
 * receive.c, send.c, send_head.c, settings.c, streams.c, table.c, tail.c and weights.c. */
#ifndef HTTP_V2_V2_H
#define HTTP_V2_V2_H

#include <stdbool.h>
#include <stdint.h>

#include "http/client/guards.h"
#include "http/client/protocol.h"
#include "http/client/tcp.h"
#include "http/message/frame.h"
#include "http/message/hpack.h"
#include "http/request/known_host.h"
#include "http/request/wire.h"

/* ngx_http_v2_module, server level. */
struct v2_settings {
    bool is_on;                /* http2 */
    uint64_t preread_size;     /* http2_body_preread_size: window of a body nobody reads yet */
    uint64_t pool_size;        /* understood */
    uint64_t recv_buffer_size; /* http2_recv_buffer_size: most bytes that are read at a time */
    int64_t max_streams;       /* http2_max_concurrent_streams */
    int64_t index_size;        /* http2_streams_index_size: buckets of the table of streams */
};
/* Settings of a location. */
struct v2_position {
    uint64_t chunk_size; /* http2_chunk_size: most bytes of a DATA frame */
};
extern struct settings_key v2_server_key;
extern struct settings_key v2_location_key;

/*
 * What a client may do, in frames: at most `burst` at once and `rate` a second after that. One list
 * serves the enum, the limits and the log line. X(id, burst, rate, "what too many of are logged
 * as")
 */
#define V2_GUARDS(X)                                                                               \
    X(GUARD_RESETS, 200, 20, "streams that it cancelled")                                          \
    X(GUARD_ERRORS, 200, 20, "streams with errors")                                                \
    X(GUARD_SETTINGS, 100, 10, "SETTINGS frames")                                                  \
    X(GUARD_PINGS, 200, 20, "PING frames")                                                         \
    X(GUARD_PRIORITIES, 1000, 200, "PRIORITY frames")                                              \
    X(GUARD_WINDOWS, 10000, 2000, "WINDOW_UPDATE frames")                                          \
    X(GUARD_EMPTY, 100, 20, "empty frames")                                                        \
    X(GUARD_UNKNOWN, 1000, 100, "frames of unknown types")                                         \
    X(GUARD_TINY, 2000, 100, "windows of a few bytes")

enum v2_guard { V2_GUARDS(CLIENT_GUARD_ID) GUARD_COUNT };

/*
 * The longest frame that a client may send. Its bytes are never held because the frame is long:
 * DATA is handed on as it comes, and its windows bound it; other kinds have limits of their own.
 * Below what a head can tell, so that a frame which is too long can be sent, and seen to be
 * refused.
 */
#define V2_FRAME_MAX (1024 * 1024)

#define URGENCIES 8
#define CLOSED_KEPT 32 /* streams that ended last, whose ends are remembered */

#define PRIORITIES_KEPT 16 /* of streams that have not begun */

#define V2_GROUPS 8 /* identifiers without a stream that others depend on */

/* Such a one: RFC 7540's way to say what belongs together. */
struct v2_group {
    uint32_t id; /* 0 = free; at id / 2 % V2_GROUPS, the newest */
    uint32_t depends_on;
    uint16_t weight;
};

#define DRAINS 16 /* streams that are answered and not wholly received */

/* Such a stream; its request is gone. */
struct v2_drained {
    uint32_t id;         /* 0 = free */
    int64_t announced;   /* content-length, or -1 */
    uint64_t received;   /* bytes of body */
    int64_t window;      /* bytes that the client may still send */
    int64_t send_window; /* ours, which has to stay within bounds */
};

#define V2_CONNECTION_MAGIC 0x43c022c7u

/* A header block that is not whole yet. */
struct v2_header_block {
    char *bytes; /* joined so far; from malloc */
    size_t size; /* bytes in it */
    size_t capacity;
    uint32_t stream; /* 0 = none is open */
    uint32_t frames; /* CONTINUATIONs so far */
    uint8_t flags;   /* of HEADERS */
    struct frame_priority priority;
};

/* Whose turn it is among the streams that have bytes to send. */
struct v2_scheduler {
    struct list waiting[URGENCIES]; /* streams with bytes to send, whose turn it is not */
    uint32_t waiting_count;
    struct {
        uint32_t id; /* 0 = free; at id / 2 % PRIORITIES_KEPT, the newest */
        uint8_t urgency;
        bool is_incremental;
    } early[PRIORITIES_KEPT]; /* PRIORITY_UPDATE that came before its stream */
    struct v2_group groups[V2_GROUPS];
    uint64_t pass;        /* of the weighted stream that was served last */
    bool has_weights;     /* the client sends weights */
    bool ignores_weights; /* the client sends priorities of RFC 9218, or says that it sends none */
};

/* Until when a frame or a header block that is there in part has to be whole, and output has to
 * leave. */
struct v2_deadline {
    uint64_t ends_ms;     /* a frame or block that is there in part has to be whole then */
    uint64_t part_taken;  /* bytes of DATA that had come when that was set */
    uint64_t data_taken;  /* bytes of DATA that have come by now */
    uint32_t part_number; /* frames that had begun */
    uint32_t frames;      /* frames that have begun by now; a header block counts once */
    uint32_t frame_size;  /* bytes of one that has to be read whole; 0 = none is waited for */
    uint32_t late_stream; /* whose header block was not; it was reset */
    bool was_partly;      /* there is one */
    bool was_unsent;      /* output waits for the socket, and its time runs */
    bool is_late;         /* output has waited longer than its time */
};

/* How near to its end a connection is: it goes one way only. */
enum v2_phase {
    V2_OPEN,
    V2_DRAINING,   /* a request came after QUIT (`shutdown_delay`): it is the last one */
    V2_GOING_AWAY, /* GOAWAY was sent: no further streams */
    V2_FAILED,     /* so it was, with an error: nothing more is read */
};

/* A connection; freed when it ends, which is never before its last stream has. */
struct v2_connection {
    uint32_t magic;
    struct http_connection *connection;
    struct conn *conn;
    const struct v2_settings *settings; /* of the address's default server */
    struct hpack_table decoder, encoder;

    struct v2_stream **streams; /* buckets by identifier, a power of two of them; owned */
    uint32_t bucket_mask;
    uint32_t stream_count; /* whose requests are worked on */
    struct list finished;  /* requests whose last frame is in the queue, oldest first */
    uint32_t finished_count;
    uint32_t last_stream;   /* highest identifier that the client has used */
    uint32_t goaway_stream; /* last_stream when GOAWAY was sent: streams above it are ignored */
    struct {
        uint32_t id;
        uint8_t end;       /* enum v2_end */
    } closed[CLOSED_KEPT]; /* by identifier; see streams.c */
    struct v2_drained drains[DRAINS];
    uint32_t drain_count;
    struct timer drain_timer; /* when they have had their moment */

    /* A frame that is worked on as it comes: DATA, or one that means nothing here. */
    struct {
        uint32_t stream;  /* whose body it is; 0 = it is dropped */
        uint32_t left;    /* bytes of payload that are to come */
        uint32_t padding; /* bytes of padding that are to come */
        bool is_open;     /* there is one */
        bool ends_stream;
    } part;

    struct v2_header_block header_block;

    /* Windows and what waits for them. */
    int64_t send_window;     /* bytes of DATA that all streams together may send */
    int64_t recv_window;     /* bytes of DATA that the client may send */
    int64_t peer_window;     /* a new stream's send window */
    uint32_t peer_frame_max; /* bytes of a frame's payload */
    struct v2_scheduler scheduler;
    struct list woken;    /* streams whose fibers go on when this input was seen through */
    uint64_t progress_ms; /* when DATA was sent last */
    uint64_t drained_ms;  /* when the socket last took something, or its queue became not empty */
    uint64_t drained_to;  /* conn->sent then */

    /* Texts that responses repeat: their numbers in the encoder's table. */
    const char *server_text;
    uint32_t server_number;
    uint32_t date_number;
    time_t date_second;

    struct known_host known_host;

    struct client_guard guards[GUARD_COUNT];

    struct v2_deadline deadline;
    bool has_preface;     /* the client's was read */
    bool is_held;         /* nothing is taken off the input until answers have left */
    bool is_acknowledged; /* ours were acknowledged: the window of new streams is ours */
    enum v2_phase phase;
    bool is_pumping;  /* input is being worked on further down on the stack */
    bool is_writing;  /* counted as being answered */
    bool was_refused; /* it was logged that worker_requests are not enough for its streams */
};

/*
 * What a stream holds of its answer (tail.c); in the request's arena. Turns and ends know it by
 * these functions alone: what continues is a fiber that waits, or a tail.
 */
struct v2_tail {
    struct v2_stream *stream;
    struct held *first, *last;              /* pieces, in order */
    struct timer timer;                     /* the client has to let something go until then */
    bool is_whole;                          /* no more comes: the stream ends after this */
    void (*go)(struct v2_stream *stream);   /* sends what may be sent */
    void (*drop)(struct v2_stream *stream); /* forgets what is held */
};

/* Whether a stream was reset: nothing more is sent on it then. */
enum v2_reset {
    V2_NOT_RESET,
    V2_RESET_BY_PEER, /* or the connection failed */
    V2_RESET_BY_US,
};

/* A stream; in the arena of its request. */
struct v2_stream {
    struct v2_connection *connection;
    struct request *request;
    struct v2_stream *next; /* in its bucket */
    uint32_t id;
    uint8_t urgency;      /* RFC 9218: 0 first, 7 last */
    bool is_incremental;  /* parts of it are of use: it takes turns */
    uint16_t weight;      /* RFC 7540: 1 to 256; 0 = it has none */
    uint32_t depends_on;  /* a stream or a group, or 0 */
    uint32_t share;       /* what its weight comes to, 1 to 65536; 0 = it has none */
    uint64_t pass;        /* bytes that it has sent, each by its share: the least is served next */
    bool is_input_ended;  /* END_STREAM was received */
    bool is_output_ended; /* END_STREAM was sent */
    enum v2_reset reset;
    bool is_turn_waited;      /* it is on the list of those that wait for their turn */
    bool has_turn;            /* it was given one: a frame may leave though others wait */
    bool is_window_waited;    /* its fiber waits for the stream's own window */
    bool is_websocket;        /* extended CONNECT (RFC 8441) */
    bool is_body_wanted;      /* somebody reads the body: its window is that of a reader */
    bool is_leaving;          /* all that is still to be given is in memory or in files */
    bool has_ended;           /* its fiber has: what is left is the tail */
    struct v2_tail *tail;     /* what is held of the answer, or NULL: see tail.c */
    bool is_body_broken;      /* the body came to its end in disorder: see error */
    uint8_t error;            /* enum v2_error that the stream is reset with at its end */
    struct list turn_node;    /* on connection->waiting */
    struct list woken_node;   /* on connection->woken */
    struct wait_point input;  /* the fiber that reads the body */
    struct wait_point output; /* the fiber that sends */

    /* Sending. */
    int64_t send_window;
    uint64_t given;            /* bytes of frames of this stream, heads included */
    uint64_t stalled_until_ms; /* the client has to let something go until then; 0 = no wait */
    uint64_t stalled_given;    /* bytes of body that the client had when the wait began */
    uint64_t body_given;
    uint64_t end_at; /* conn->queued after its last frame */

    /* Receiving. */
    int64_t recv_window; /* bytes that the client may still send */
    char *in;            /* pooled buffer of body bytes not read yet, or NULL */
    uint32_t in_size, in_start, in_end;
    uint64_t body_bytes; /* received, without padding */
};

extern const struct http_wire v2_wire;
/* HTTP/2, for which ngx_http_v2_module registers (connection.c). */
extern const struct http_protocol v2_protocol;

/* Most bytes of a DATA frame at the location that answers. */
static inline uint64_t v2_chunk_size(const struct http_location *location)
{
    const struct v2_position *position = location_settings(location, &v2_location_key);
    return position->chunk_size;
}

/* Does this server speak HTTP/2 (on plain sockets by prior knowledge, with TLS by ALPN)? */
bool v2_is_on(const struct http_server *server);

/* connection.c */
/* Sees to everything that may go on: sends, recycles, gives turns, rests or closes. On the loop's
 * stack only. The connection may be gone afterwards. */
void v2_settle(struct v2_connection *c);
/* Does the same at the end of this turn; may be called from anywhere. */
static inline void v2_settle_later(struct v2_connection *c)
{
    if (!c->is_pumping) {
        loop_defer(&c->connection->settle);
    }
}
#define V2_INPUT_FIRST 4096 /* bytes of a fresh input buffer */
/* input.c: reads and works until there is nothing more, or others are to have their turn. */
void v2_pump(struct v2_connection *c);

/* receive.c: works on one frame. Its payload is whole; of DATA and what means nothing here it is
 * yet to come. */
void v2_receive(struct v2_connection *c, const struct frame_head *head, struct str payload);

/* head.c: a header block that is whole. HEADERS of a new stream, or trailers. */
void v2_take_block(struct v2_connection *c, uint32_t id, uint8_t flags, struct str block);

/* errors.c */
/* The connection ends with this error (RFC 9113, 5.4.1): GOAWAY, requests are cancelled. Logs
 * "client …"; reason is a format of printf; NULL: it was logged. */
__attribute__((format(printf, 3, 4))) void v2_fail(struct v2_connection *c, enum v2_error error,
                                                   const char *reason, ...);
/* RST_STREAM to the client, its request is cancelled. */
void v2_reset(struct v2_stream *stream, enum v2_error error);
/* The request ends without a word to the client. */
void v2_cancel(struct v2_stream *stream, enum v2_reset by);
/* All requests end so. */
void v2_cancel_all(struct v2_connection *c);
/* Has the fiber that waits here gone on when the input was seen through. */
void v2_wake(struct v2_stream *stream);

/* table.c */
struct v2_stream *v2_find(const struct v2_connection *c, uint32_t id);
void v2_stream_add(struct v2_connection *c, struct v2_stream *stream, uint32_t id);
void v2_stream_remove(struct v2_connection *c, struct v2_stream *stream);
/* How a stream ended: what the client still sends of it is judged by that. */
enum v2_end {
    END_UNKNOWN, /* too long ago, or it never began */
    END_WHOLE,   /* both sides have said all */
    END_BY_US,   /* with our RST_STREAM: the client may not know of it yet */
    END_BY_PEER, /* with the client's */
};
/* Of a request that was on its way when the client got GOAWAY: all frames of it are ignored. */
static inline bool v2_is_overlooked(const struct v2_connection *c, uint32_t id)
{
    return c->phase >= V2_GOING_AWAY && id > c->goaway_stream && id <= c->last_stream &&
           id % 2 != 0;
}
enum v2_end v2_ending(const struct v2_connection *c, uint32_t id);
void v2_note_closed(struct v2_connection *c, uint32_t id, enum v2_end end);
void v2_each(struct v2_connection *c, void (*visit)(struct v2_stream *stream, void *arg),
             void *arg);

/* streams.c */
void v2_request_ended(struct request *request, enum handler_result result);
/* Logs and frees requests whose last byte is sent. */
void v2_recycle(struct v2_connection *c);
/* Fibers and tails that were woken go on. */
void v2_run_woken(struct v2_connection *c);

/* It is worked on no more, and nothing is held: the end of a stream whose fiber has ended. */
void v2_stream_settled(struct v2_stream *stream);

/* send_head.c */
void v2_send_head(struct request *request);
void v2_send_interim(struct request *request, unsigned status, const struct fields *fields);
/* The response's, with the end of the stream. */
void v2_send_trailers(struct v2_stream *stream);

/* data.c */
/* DATA frames of so many bytes of the piece, beginning at `from`. 0: the file cannot be read. */
size_t v2_put_frames(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                     size_t granted, bool is_last);
/* The end of the response: trailers, or an empty DATA frame. */
void v2_put_end(struct v2_stream *stream);

/* tail.c */
/* May the rest of this piece be held by the stream, so that nobody has to wait for the client? */
bool v2_tail_may_hold(const struct v2_stream *stream, const struct body_piece *piece, uint64_t left,
                      bool is_last);
/* Holds it, after what is held already; who calls has asked v2_try_grant, and been given nothing.
 */
void v2_tail_hold(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                  uint64_t size);
/* Nothing more comes after what is held. */
void v2_tail_end(struct v2_stream *stream);
/* Is there something held? */
static inline bool v2_tail_waits(const struct v2_stream *stream)
{
    return stream->tail != NULL && stream->tail->first != NULL;
}
/* Sends what may be sent. On the loop's stack. */
static inline void v2_tail_go(struct v2_stream *stream)
{
    stream->tail->go(stream);
}
/* Forgets what is held. */
static inline void v2_tail_drop(struct v2_stream *stream)
{
    if (stream->tail != NULL) {
        stream->tail->drop(stream);
    }
}

/* flow.c */
/* How many bytes of DATA may leave now, at most `wanted`. MAY WAIT. 0: the stream is over, or
 * is_leaving was set. */
size_t v2_grant(struct v2_stream *stream, uint64_t wanted);
/* The same without waiting, and without limit_rate. 0: the stream is woken when there may be some.
 */
size_t v2_try_grant(struct v2_stream *stream, uint64_t wanted);
/* Until when (in ms) the client has to take something, if it has taken nothing since this was
 * asked. */
uint64_t v2_io_deadline(struct v2_stream *stream);
/* It has not: logged; the connection ends when nothing else moves on it. */
void v2_give_up(struct v2_stream *stream);
/* Bytes of the stream were written, in so many frames. */
void v2_spend(struct v2_stream *stream, size_t size, size_t frames, bool is_tiny);
/* Another urgency from now on, be it that the stream waits for its turn. */
void v2_prioritise(struct v2_stream *stream, uint8_t urgency, bool is_incremental);
/* Gives streams that wait their turn what there is. On the loop's stack. */
void v2_serve(struct v2_connection *c);
bool v2_has_room(const struct v2_connection *c);
/* WINDOW_UPDATE and a changed initial window. False: beyond 2^31-1. */
bool v2_widen(struct v2_connection *c, uint32_t by);
bool v2_stream_widen(struct v2_stream *stream, int64_t by);

/* weights.c */
/* A stream begins; priority may say nothing. */
void v2_weights_begin(struct v2_stream *stream, const struct frame_priority *priority);
/* PRIORITY. */
void v2_weights_change(struct v2_connection *c, uint32_t id, const struct frame_priority *priority);
/* What depended on a stream that has ended depends on what it did. */
void v2_weights_ended(struct v2_stream *stream);

/* body.c */
/* DATA begins, of so many bytes without padding: what its head tells. c->part says what becomes of
 * them. */
void v2_data_begin(struct v2_connection *c, const struct frame_head *head, uint32_t size);
/* A part of DATA has come: bytes of the body, bytes of padding, the last of the stream or not. */
void v2_data_part(struct v2_connection *c, struct str bytes, uint32_t padding, bool is_last);
void v2_body_ended(struct v2_stream *stream);
ssize_t v2_read_body(struct request *request, void *at, size_t size);
bool v2_has_whole_body(const struct request *request, uint64_t most);
void v2_body_free(struct v2_stream *stream);

/* drain.c: false where the stream is none of those that are drained. */
void v2_drains_init(struct v2_connection *c);
void v2_drains_end(struct v2_connection *c);
void v2_drain(struct v2_stream *stream);
/* The client knows how wide windows are: those of streams that are drained change by so much. */
void v2_drains_shift(struct v2_connection *c, int64_t change);
bool v2_drain_data(struct v2_connection *c, uint32_t id, size_t size, uint32_t padding,
                   bool is_last);
bool v2_drain_has(struct v2_connection *c, uint32_t id);
void v2_drain_trailers(struct v2_connection *c, uint32_t id, bool is_sound);
bool v2_drain_window(struct v2_connection *c, uint32_t id, uint32_t by);
bool v2_drain_reset(struct v2_connection *c, uint32_t id);

/* errors.c: counts one. False: that was one too many, the connection has failed. */
bool v2_guard(struct v2_connection *c, enum v2_guard guard);
/* Something good happened that weighs against `count` of them. */
static inline void v2_appease(struct v2_connection *c, enum v2_guard guard, uint32_t count)
{
    client_guard_appease(&c->guards[guard], count);
}
/* Ends the connection with ENHANCE_YOUR_CALM: "client sent too many …". */
void v2_guard_failed(struct v2_connection *c, const char *what);

/* send.c: frames of the connection itself. */
void v2_put_settings(struct v2_connection *c);
void v2_put_window(struct v2_connection *c, uint32_t stream, uint32_t by);
void v2_put_reset(struct v2_connection *c, uint32_t id, enum v2_error error);
/* No further streams; those that are open come to their end. */
void v2_go_away(struct v2_connection *c, enum v2_error error);

#endif
