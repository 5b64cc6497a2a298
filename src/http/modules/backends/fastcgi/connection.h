/* A connection that speaks FastCGI: where decoding stands, and the requests on it.
 * Implemented in connection.c, question.c, send.c and shared.c. */
#ifndef HTTP_MODULES_BACKENDS_FASTCGI_CONNECTION_H
#define HTTP_MODULES_BACKENDS_FASTCGI_CONNECTION_H

#include "http/modules/backends/fastcgi/fastcgi.h"

/*
 * At upstream_connection.state, for as long as that connection lives. As long as it carries one
 * request at a time, the payload of its records is decoded where it lies, in the connection's input
 * buffer:
 *
 *     | decoded, not read | gap: headers, padding | as it came |
 *     ^ in_start                                               ^ in_end
 *
 * so that a small answer is never copied. On a shared one each stream has bytes of its own, filled
 * as they arrive.
 */
struct fastcgi_connection {
    struct upstream_connection *connection;
    struct fastcgi_stream **streams; /* of a shared one: by id - 1; NULL = free. Owned, grows */
    uint32_t capacity;               /* entries of streams */
    uint32_t lowest;                 /* entries below it are taken */
    uint32_t abandoned;   /* ids whose requests were abandoned, until END_REQUEST comes */
    uint32_t full;        /* streams that are is_full */
    struct list pending;  /* streams to be woken, by in_pending */
    struct deferred more; /* input that was left for the next turn */
    uint32_t decoded;     /* bytes at the start of the input that are payload */
    uint32_t gap;         /* bytes after them that were used */
    struct record record; /* the current one: what is left of its content and padding */
    bool is_in_record;    /* not all of its content and padding was seen */
    bool is_shared;
    bool has_asked; /* FCGI_GET_VALUES went out, so that an answer may come */
    bool is_asking; /* the question is asked while the connection is idle, and nothing else happens
                       on it (question.c) */
    unsigned max_conns; /* is_asking: of the `server` line */
    uint64_t asked_ms;  /* is_asking: when */
    bool is_bad;        /* a broken rule: nothing more is believed */
    bool is_in_demux;   /* fibers are woken: it may not be freed */
    bool is_let_go;     /* it is to be freed when it is no longer in demux */
};

/* Streams of a shared connection whose END_REQUEST is still to come though nobody waits for it. */
extern struct fastcgi_stream fastcgi_abandoned;

static inline struct fastcgi_connection *fastcgi_connection_of(
    const struct upstream_connection *connection)
{
    return connection->state;
}

/* Is there something the backend said that nobody has decoded, or a part of a record that is to
 * come? */
static inline bool fastcgi_connection_is_clean(const struct fastcgi_connection *connection)
{
    const struct conn *conn = connection->connection->conn;

    return !connection->is_bad && !connection->is_in_record && conn->in_start == conn->in_end;
}

/* What the channel gives and takes. */
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

/*
 * Decodes what has arrived for the stream of a connection that is its own, up to the next part of
 * the body. joins: a part is put after what is unread already. True: something came of it.
 */
static inline bool fastcgi_decode(struct fastcgi_stream *stream, bool joins)
{
    const struct fastcgi_connection *connection = stream->connection;
    const struct conn *conn = connection->connection->conn;

    return conn->in_end - conn->in_start != connection->decoded + connection->gap &&
           fastcgi_decode_raw(stream, joins);
}

/* Breaking of rules: why, to the log of the stream. */
void fastcgi_refuse_version(struct fastcgi_stream *stream, unsigned version);
void fastcgi_refuse_type(struct fastcgi_stream *stream, unsigned type);
void fastcgi_refuse_record(struct fastcgi_stream *stream, unsigned type);
void fastcgi_refuse_id(struct fastcgi_stream *stream, unsigned id);

/* Payload after the end of STDOUT. */
static inline bool fastcgi_comes_late(const struct fastcgi_stream *stream,
                                      const struct record *record)
{
    return record->type == RECORD_STDOUT && record->content != 0 && stream->is_stdout_closed;
}

/* END_REQUEST with these bytes of content. */
void fastcgi_end_stream(struct fastcgi_stream *stream, struct str content);

/* Queues ABORT_REQUEST (FastCGI 1.0, 5.4). */
void fastcgi_abort_request(struct conn *conn, uint16_t id);

/* How many bytes of content have to be there before a record of this type is looked at; 1 = any
 * part will do. */
size_t fastcgi_wanted(const struct record *record);

/* ---- question.c ---- */

/* Asks a backend of which nothing is known, on a connection in its pool, which closes when it has
 * answered, ended, or said nothing for a while. max_conns: of the `server` line, 0 = not written.
 * Does nothing where somebody else asks. */
void fastcgi_question_put(struct upstream_connection *connection, unsigned max_conns);
/* The connection goes: no answer is an answer, too; if we close it somebody else may ask. */
void fastcgi_question_ends(struct fastcgi_connection *state);

/* ---- shared.c ---- */

/* The conn's owner for a shared connection: its input goes to the streams. */
extern const struct conn_owner fastcgi_shared_owner;

/* Input that was left for another turn. */
void fastcgi_shared_more(struct deferred *deferred);
/* Gives the stream an id. False: there is none left. */
bool fastcgi_shared_enter(struct fastcgi_connection *connection, struct fastcgi_stream *stream);
/* The stream leaves; one that has not ended is aborted. */
void fastcgi_shared_leave(struct fastcgi_connection *connection, struct fastcgi_stream *stream);
/* What has arrived moves to where the exchange reads. True: there was something. */
bool fastcgi_shared_fill(struct fastcgi_stream *stream);

#endif
