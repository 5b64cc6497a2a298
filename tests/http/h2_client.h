/* A request by HTTP/2 without a server around it: what a backend sends comes through a socket pair,
 * cut as the test wants, and is read as an exchange reads it. */
#ifndef TESTS_HTTP_H2_CLIENT_H
#define TESTS_HTTP_H2_CLIENT_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "http/exchange/h2/h2.h"
#include "upstream/peer.h"

/* How the answer came out. */
struct h2_seen {
    struct buf body;
    enum { H2_WAITING, H2_WHOLE, H2_BAD } end;
    unsigned status;   /* 0 = no head */
    unsigned trailers; /* fields */
};

/* All that a request needs to be on a connection. */
struct h2_stage {
    struct request request;
    struct exchange x;
    struct protocol protocol;
    struct exchange_settings family;
    struct upstream_connection connection;
    struct upstream_group group;
    struct peer_cell *cell;
    struct attempt attempt;
    struct log log; /* of the connection */
    int backend;    /* our end of the socket pair */
    bool has_head;
};

static struct h2_stage *h2_stage_open(struct str body)
{
    struct h2_stage *stage = calloc(1, sizeof(*stage));
    static const struct conn_owner nobody = {.input = 0};
    int pair[2];

    if (stage == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == -1) {
        abort();
    }
    conn_pool_init(64);
    stage->backend = pair[1];
    stage->cell = calloc(1, sizeof(*stage->cell));
    arena_init(&stage->request.arena);
    stage->request.log = stage->log;
    stage->request.method = METHOD_GET;
    stage->protocol = (struct protocol){.channel = &h2_channel};
    stage->family.buffer_size = 4096;
    stage->connection =
        (struct upstream_connection){.magic = UPSTREAM_CONNECTION_MAGIC,
                                     .conn = conn_new(pair[0], NULL, &nobody, &stage->log),
                                     .group = &stage->group,
                                     .cell = stage->cell,
                                     .users = 1,
                                     .users_max = 1};
    stage->connection.conn->user = &stage->connection;
    struct h2_stream *stream = arena_new(&stage->request.arena, struct h2_stream);
    stream->coded.response.keeps_trailers = true;
    stage->x = (struct exchange){.request = &stage->request,
                                 .protocol = &stage->protocol,
                                 .settings = &stage->family,
                                 .channel_state = stream,
                                 .connection = &stage->connection,
                                 .attempt = &stage->attempt,
                                 .head = STR("\x82\x86\x84"),
                                 .body_override = body,
                                 .response = {.content_length = -1}};
    if (!h2_channel.begin(&stage->x)) {
        abort();
    }
    h2_send_head(&stage->x);
    const struct body_piece piece = {.bytes = body, .fd = -1};
    h2_send_body(&stage->x, body.len == 0 ? NULL : &piece, true);
    return stage;
}

static void h2_stage_close(struct h2_stage *stage)
{
    struct h2_stream *stream = h2_stream_of(&stage->x);

    h2_bytes_free(&stream->reading);
    h2_bytes_free(&stream->arriving);
    buf_free(&stream->kept);
    stage->connection.state_free(&stage->connection);
    conn_close(stage->connection.conn);
    close(stage->backend);
    arena_free(&stage->request.arena);
    free(stage->cell);
    free(stage);
}

/* One step: false when there is nothing more for now. */
static bool h2_stage_read(struct h2_stage *stage, struct h2_seen *seen)
{
    struct exchange *x = &stage->x;
    struct str data;

    if (!stage->has_head) {
        enum head_result result = h2_read_head(x);
        if (result == HEAD_DONE) {
            stage->has_head = x->response.status >= 200;
            seen->status = x->response.status;
            if (!stage->has_head) {
                x->response = (struct upstream_response){.content_length = -1};
            }
            return true;
        }
        if (result == HEAD_BAD || (!h2_channel.fill(x) && h2_channel.has_ended(x))) {
            seen->end = H2_BAD;
        }
        return false;
    }
    enum body_result result = h2_read_body(x, &data);
    if (result == BODY_DATA) {
        buf_append(&seen->body, data);
        return true;
    }
    if (result == BODY_MORE) {
        if (h2_channel.fill(x)) {
            return true;
        }
        if (!h2_channel.has_ended(x)) {
            return false;
        }
        result = h2_body_ended(x);
    }
    seen->end = result == BODY_END ? H2_WHOLE : H2_BAD;
    seen->trailers = x->response.trailers == NULL ? 0 : x->response.trailers->count;
    return false;
}

/* The backend sends `text` in pieces of `step` bytes; the request has a body of so many bytes. */
static void h2_tell(struct str body, struct str text, size_t step, struct h2_seen *seen)
{
    struct h2_stage *stage = h2_stage_open(body);
    struct conn *conn = stage->connection.conn;
    char drain[65536];

    seen->body.len = 0;
    seen->end = H2_WAITING;
    seen->status = seen->trailers = 0;
    for (struct str rest = text; rest.len != 0 && seen->end == H2_WAITING;) {
        struct str part = str_head(rest, step);

        if (send(stage->backend, part.data, part.len, MSG_NOSIGNAL) != (ssize_t) part.len) {
            abort();
        }
        rest = str_skip(rest, part.len);
        conn->is_readable = 1;
        conn->owner->input(conn);
        conn_flush(conn);
        while (recv(stage->backend, drain, sizeof(drain), 0) > 0) {
        }
        while (seen->end == H2_WAITING && h2_stage_read(stage, seen)) {
        }
    }
    h2_stage_close(stage);
}

#endif
