/* A FastCGI request without a server around it: what a backend sends comes through a socket pair,
 * cut as the test wants, and is read as an exchange reads it. */
#ifndef TESTS_HTTP_FASTCGI_H
#define TESTS_HTTP_FASTCGI_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "http/modules/backends/fastcgi/connection.h"

/* How the answer came out. */
struct told {
    struct buf body;
    struct buf log; /* lines that were logged, each with a newline */
    enum { TOLD_WAITING, TOLD_WHOLE, TOLD_BAD } end;
    unsigned status; /* 0 = no head */
    bool is_reusable;
};

/* What a case has of its own. */
struct fastcgi_case {
    bool is_shared;       /* on a link for many requests */
    bool asks;            /* nothing is known of the backend, and an answer may come in band */
    unsigned keep;        /* enum keep_conn */
    const char *caught;   /* fastcgi_catch_stderr, or NULL */
    uint64_t buffer_size; /* 0 = 4096 */
};

static struct buf *told_log;

static void told_line(struct log_sink *sink, enum log_level level, struct str line)
{
    const char *start = str_find(line, STR(": "));

    buf_append(told_log, start == NULL ? line : str_from(start + 2, line.data + line.len));
    buf_append_char(told_log, '\n');
}

static struct log_sink told_sink = {.level = LOG_INFO, .write = told_line};

/* All that a request needs to be on a link. */
struct fastcgi_stage {
    struct request request;
    struct exchange x;
    struct protocol protocol;
    struct exchange_settings family;
    struct fastcgi_settings settings;
    struct upstream_connection connection;
    struct upstream_group group;
    struct peer_cell *cell;
    struct attempt attempt;
    struct log log; /* of the connection */
    int backend;    /* our end of the socket pair */
    bool has_head;
};

static struct fastcgi_stage *stage_open(const struct fastcgi_case *what, struct told *seen)
{
    struct fastcgi_stage *stage = calloc(1, sizeof(*stage));
    static const struct conn_owner nobody = {.input = 0};
    int pair[2];

    if (stage == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == -1) {
        abort();
    }
    told_log = &seen->log;
    conn_pool_init(64);
    stage->backend = pair[1];
    stage->cell = calloc(1, sizeof(*stage->cell));
    stage->cell->facts_state = what->asks ? 0 : 2;
    stage->cell->multiplexes = what->is_shared;
    stage->log = (struct log){.sinks = &told_sink, .level = LOG_INFO};
    arena_init(&stage->request.arena);
    stage->request.log = stage->log;
    stage->request.method = METHOD_GET;
    stage->protocol = (struct protocol){.channel = &fastcgi_channel};
    stage->family.buffer_size = what->buffer_size != 0 ? what->buffer_size : 4096;
    stage->settings.keep_conn = what->keep;
    if (what->caught != NULL) {
        *vec_add(&stage->settings.catch_stderr, &stage->request.arena, struct str) =
            str_of(what->caught);
    }
    stage->connection =
        (struct upstream_connection){.magic = UPSTREAM_CONNECTION_MAGIC,
                                     .conn = conn_new(pair[0], NULL, &nobody, &stage->log),
                                     .group = &stage->group,
                                     .cell = stage->cell,
                                     .users = 1,
                                     .users_max = 1};
    stage->connection.conn->user = &stage->connection;
    struct fastcgi_stream *stream = arena_new(&stage->request.arena, struct fastcgi_stream);
    stage->x = (struct exchange){.request = &stage->request,
                                 .protocol = &stage->protocol,
                                 .settings = &stage->family,
                                 .module_settings = &stage->settings,
                                 .state = stream,
                                 .connection = &stage->connection,
                                 .attempt = &stage->attempt,
                                 .response = {.content_length = -1}};
    if (!fastcgi_channel.begin(&stage->x)) {
        abort();
    }
    stream->connection->has_asked = what->asks;
    return stage;
}

static void stage_close(struct fastcgi_stage *stage)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(&stage->x);

    conn_buffer_free(stream->reading.data, stream->reading.size);
    conn_buffer_free(stream->arriving.data, stream->arriving.size);
    stage->connection.state_free(&stage->connection);
    conn_close(stage->connection.conn);
    close(stage->backend);
    arena_free(&stage->request.arena);
    free(stage->cell);
    free(stage);
}

/* One step of the head: false when there is nothing more for now. */
static bool stage_read_head(struct fastcgi_stage *stage, struct told *seen)
{
    struct exchange *x = &stage->x;

    switch (fastcgi_read_head(x)) {
    case HEAD_DONE:
        stage->has_head = x->response.status >= 200;
        seen->status = x->response.status;
        if (!stage->has_head) {
            x->response = (struct upstream_response){.content_length = -1};
        }
        return true;
    case HEAD_BAD:
        seen->end = TOLD_BAD;
        return false;
    case HEAD_MORE:
        break;
    }
    if (fastcgi_channel.input(x).len >= stage->family.buffer_size) {
        seen->end = TOLD_BAD;
        return false;
    }
    if (fastcgi_channel.fill(x)) {
        return true;
    }
    if (fastcgi_channel.has_ended(x)) {
        seen->end = TOLD_BAD;
    }
    return false;
}

static bool stage_read_body(struct fastcgi_stage *stage, struct told *seen)
{
    struct exchange *x = &stage->x;
    struct str data;
    enum body_result result = fastcgi_read_body(x, &data);

    if (result == BODY_DATA) {
        x->body_received += data.len;
        buf_append(&seen->body, data);
        return true;
    }
    if (result == BODY_MORE) {
        if (fastcgi_channel.fill(x)) {
            return true;
        }
        if (!fastcgi_channel.has_ended(x)) {
            return false;
        }
        result = fastcgi_body_ended(x);
    }
    seen->end = result == BODY_END ? TOLD_WHOLE : TOLD_BAD;
    seen->is_reusable =
        x->is_reusable && fastcgi_connection_is_clean(fastcgi_connection_of(&stage->connection));
    return false;
}

/* The loop tells of the socket, and the exchange reads what it can. */
static void stage_run(struct fastcgi_stage *stage, struct told *seen)
{
    struct conn *conn = stage->connection.conn;

    conn->is_readable = 1;
    if (fastcgi_connection_of(&stage->connection)->is_shared) {
        conn->owner->input(conn);
    }
    while (seen->end == TOLD_WAITING &&
           (stage->has_head ? stage_read_body(stage, seen) : stage_read_head(stage, seen))) {
    }
}

/* The backend sends `text` in pieces of `step` bytes, and then ends if it is told to. */
static void fastcgi_tell(const struct fastcgi_case *what, struct str text, size_t step, bool closes,
                         struct told *seen)
{
    struct fastcgi_stage *stage = stage_open(what, seen);

    seen->body.len = seen->log.len = 0;
    seen->end = TOLD_WAITING;
    seen->status = 0;
    seen->is_reusable = false;
    for (struct str rest = text; rest.len != 0 && seen->end == TOLD_WAITING;) {
        struct str part = str_head(rest, step);

        if (send(stage->backend, part.data, part.len, MSG_NOSIGNAL) != (ssize_t) part.len) {
            abort();
        }
        rest = str_skip(rest, part.len);
        stage_run(stage, seen);
    }
    if (closes && seen->end == TOLD_WAITING) {
        shutdown(stage->backend, SHUT_WR);
        stage_run(stage, seen);
    }
    stage_close(stage);
}

static inline void told_free(struct told *seen)
{
    buf_free(&seen->body);
    buf_free(&seen->log);
}

#endif
