/* A FastCGI connection: the state of decoding, and the requests on it. Implemented in connection.c,
 * question.c, send.c and shared.c. */
#ifndef HTTP_MODULES_BACKENDS_FASTCGI_CONNECTION_H
#define HTTP_MODULES_BACKENDS_FASTCGI_CONNECTION_H

#include "http/modules/backends/fastcgi/fastcgi.h"

/*
 * State of a connection, at upstream_connection.state; it lives as long as the connection. While
 * the connection carries one request at a time, the payload of records is decoded in place, in the
 * connection's input buffer, so that a small response is never copied:
 *
 *     | decoded, not read | gap: headers, padding | not decoded |
 *     ^ in_start                                                ^ in_end
 *
 * On a shared connection each stream has a buffer of its own, filled as bytes arrive.
 */
struct fastcgi_connection {
    struct upstream_connection *connection;
    struct fastcgi_stream **streams; /* if shared: by id - 1; NULL = free. Owned, grows */
    uint32_t capacity;               /* entries of streams */
    uint32_t lowest;                 /* entries below this index are in use */
    uint32_t abandoned;              /* ids of aborted requests without an END_REQUEST so far */
    uint32_t full;                   /* streams with is_full */
    struct list pending;             /* streams to wake, by in_pending */
    struct deferred more; /* continues with buffered input in the next turn of the loop */
    uint32_t decoded;     /* bytes of payload at the start of the input */
    uint32_t gap;         /* decoded bytes after them that are not payload */
    struct record record; /* the current record: its remaining content and padding */
    bool is_in_record;    /* the current record has remaining content or padding */
    bool is_shared;
    bool has_asked; /* FCGI_GET_VALUES was sent, so an answer is expected */
    /* FCGI_GET_VALUES was sent on this connection while it is idle, and it is not used otherwise
     * (question.c). */
    bool is_asking;
    unsigned max_conns; /* with is_asking: of the `server` directive */
    uint64_t asked_ms;  /* with is_asking: the time */
    bool is_bad;        /* protocol error: further input is ignored */
    bool is_in_demux;   /* fibers are being woken: must not be freed */
    bool is_let_go;     /* to be freed when is_in_demux ends */
};

/* Marks ids of a shared connection whose request was aborted, until END_REQUEST arrives. */
extern struct fastcgi_stream fastcgi_abandoned;

static inline struct fastcgi_connection *fastcgi_connection_of(
    const struct upstream_connection *connection)
{
    return connection->state;
}

/* Has everything that was received been decoded, and is no record incomplete? */
static inline bool fastcgi_connection_is_clean(const struct fastcgi_connection *connection)
{
    const struct conn *conn = connection->connection->conn;

    return !connection->is_bad && !connection->is_in_record && conn->in_start == conn->in_end;
}

/* The unread payload of a request. */
static inline struct str fastcgi_input(const struct exchange *x)
{
    const struct fastcgi_stream *stream = fastcgi_stream_of(x);
    const struct fastcgi_pending *reading = &stream->reading;
    const struct fastcgi_connection *connection = stream->connection;

    if (connection->decoded != 0) {
        return (struct str){connection->connection->conn->in +
                                connection->connection->conn->in_start,
                            connection->decoded};
    }
    if (reading->start != reading->end) { /* of a shared connection */
        return (struct str){reading->data + reading->start, reading->end - reading->start};
    }
    return STR_NONE;
}

static inline void fastcgi_consume(struct exchange *x, size_t n)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);
    struct fastcgi_connection *connection = stream->connection;

    if (connection->is_shared) {
        stream->reading.start += (uint32_t) n;
        return;
    }
    connection->decoded -= (uint32_t) n;
    if (connection->decoded == 0) {
        n += connection->gap;
        connection->gap = 0;
    }
    conn_consume(connection->connection->conn, n);
}

bool fastcgi_decode_raw(struct fastcgi_stream *stream, bool joins);

/* Decodes input of an exclusive connection up to the next part of the body. joins: that part may be
 * appended to unread payload. True: there was something new. */
static inline bool fastcgi_decode(struct fastcgi_stream *stream, bool joins)
{
    const struct fastcgi_connection *connection = stream->connection;
    const struct conn *conn = connection->connection->conn;

    return conn->in_end - conn->in_start != connection->decoded + connection->gap &&
           fastcgi_decode_raw(stream, joins);
}

/* Log a protocol error to the log of the stream, and mark the stream bad. */
void fastcgi_refuse_version(struct fastcgi_stream *stream, unsigned version);
void fastcgi_refuse_type(struct fastcgi_stream *stream, unsigned type);
void fastcgi_refuse_record(struct fastcgi_stream *stream, unsigned type);
void fastcgi_refuse_id(struct fastcgi_stream *stream, unsigned id);

/* Is this payload after the end of STDOUT? */
static inline bool fastcgi_comes_late(const struct fastcgi_stream *stream,
                                      const struct record *record)
{
    return record->type == RECORD_STDOUT && record->content != 0 && stream->is_stdout_closed;
}

/* Ends the stream by END_REQUEST with this content. */
void fastcgi_end_stream(struct fastcgi_stream *stream, struct str content);

/* Queues ABORT_REQUEST (FastCGI 1.0, 5.4). */
void fastcgi_abort_request(struct conn *conn, uint16_t id);

/* How many bytes of content must have arrived before a record of this type is processed; 1 = any
 * part. */
size_t fastcgi_wanted(const struct record *record);

/* ---- question.c ---- */

/* Requests the facts of an unknown backend on an idle connection in its pool, which is closed after
 * the answer, its end, or a timeout. max_conns: of the `server` directive, 0 = not set. Does
 * nothing if they have been requested elsewhere. */
void fastcgi_question_put(struct upstream_connection *connection, unsigned max_conns);
/* Called before the connection is freed. If the backend closed it or did not answer in time, that
 * counts as the answer; if this side closed it, the facts can be requested again. */
void fastcgi_question_ends(struct fastcgi_connection *state);

/* ---- shared.c ---- */

/* The conn's owner for a shared connection: distributes its input to the streams. */
extern const struct conn_owner fastcgi_shared_owner;

/* Continues with input that was left for another turn. */
void fastcgi_shared_more(struct deferred *deferred);
/* Assigns an id to the stream. False: none is free. */
bool fastcgi_shared_enter(struct fastcgi_connection *connection, struct fastcgi_stream *stream);
/* Removes the stream; if it has not ended, it is aborted. */
void fastcgi_shared_leave(struct fastcgi_connection *connection, struct fastcgi_stream *stream);
/* Moves bytes that have arrived to the exchange's input. True: there were some. */
bool fastcgi_shared_fill(struct fastcgi_stream *stream);

#endif
