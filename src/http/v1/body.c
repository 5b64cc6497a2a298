/* Request bodies of HTTP/1: with a length or chunked, read as a handler asks for them. */
#include "base/clock.h"
#include "http/request/body.h"
#include "http/v1/v1.h"
#include "server/generation.h"

/* Room of the connection's buffer for chunk frames and trailers. */
#define CHUNK_BUFFER 16384

static ssize_t body_refuse(struct request *request, unsigned status, const char *reason)
{
    log_error(&request->log, 0, "%s", reason);
    request->incoming.refusal = status;
    request->keepalive = false;
    request->is_lingering_forced = true;
    return -1;
}

/* Waits for input. False: time is up (408) or the client is gone (status 0, or 400 when it closed
 * its side early). */
static bool wait_for_input(struct request *request)
{
    struct conn *conn = v1_conn(request);

    if (request->incoming.reads_no_further) {
        return false;
    }
    uint64_t deadline = request_body_deadline(request);

    if (conn_unsent(conn) != 0) {
        conn_flush(conn);
    }
    enum wait_result result = conn_wait_input(conn, deadline);
    bool goes_on = request_body_waited(request, result);
    if (request->incoming.refusal == 408) {
        request->keepalive = false;
    }
    return goes_on;
}

/* The client ended its side, or broke off, before the body was whole. */
static ssize_t ended_early(struct request *request)
{
    request->keepalive = false;
    request->incoming.is_read = true;
    if (v1_conn(request)->is_broken) {
        return -1;
    }
    log_info(&request->log, 0, "client prematurely closed connection");
    request->incoming.refusal = 400;
    request->is_lingering_forced = true;
    return -1;
}

static ssize_t read_counted(struct request *request, struct v1_body *body, void *at, size_t size)
{
    struct conn *conn = v1_conn(request);

    if (body->left == 0) {
        request->incoming.is_read = true;
        return 0;
    }
    for (;;) {
        ssize_t n = conn_read(conn, at, size < body->left ? size : (size_t) body->left);
        if (n > 0) {
            body->left -= (uint64_t) n;
            request->incoming.received += (uint64_t) n;
            request->incoming.is_read = body->left == 0;
            return n;
        }
        if (n == 0 || conn->is_broken) {
            return ended_early(request);
        }
        if (!wait_for_input(request)) {
            return -1;
        }
    }
}

/* Trailers may take as much as one header line. */
static struct head_limits trailer_limits(const struct request *request)
{
    struct head_limits limits = request->server->head_limits;

    limits.head_max = limits.line_max;
    limits.wants_crlf = true;
    return limits;
}

/* The input buffer is reused: the trailers get a copy of their bytes. */
static void keep_trailers(struct request *request, const struct fields *fields, struct str lines)
{
    struct str copy = arena_dup(&request->arena, lines);

    fields_each(field, fields) {
        field->name.data = copy.data + (field->name.data - lines.data);
        field->value.data = copy.data + (field->value.data - lines.data);
    }
    request->incoming.trailers = arena_new(&request->arena, struct fields);
    *request->incoming.trailers = *fields;
}

/* Trailers up to the empty line. 0 = whole, 1 = more input is needed, -1 = refused. */
static int read_trailers(struct request *request, struct v1_body *body)
{
    struct conn *conn = v1_conn(request);
    struct head_limits limits = trailer_limits(request);
    struct fields fields = {0};
    const struct field_reading reading = {.limits = &limits,
                                          .arena = &request->arena,
                                          .fields = &fields};
    struct head head = {0};
    struct str input = conn_input(conn);
    uint32_t used;

    switch (fields_parse_parts(&body->trailers, input, &reading, &head, &used)) {
    case PARSE_DONE:
        break;
    case PARSE_MORE:
        return 1;
    case PARSE_BAD:
        counters_mine->limited += head.status == 494;
        body_refuse(request, 400, "client sent invalid trailers");
        return -1;
    }
    if (fields.count != 0) {
        keep_trailers(request, &fields, str_head(input, used));
    }
    conn_consume(conn, used);
    request->incoming.received += used;
    request->incoming.is_read = true;
    return 0;
}

/* A chunk that takes the body above its limit is refused when it is announced. */
static bool is_announced_too_large(struct request *request, const struct v1_body *body)
{
    uint64_t size = body->decoded + body->chunked.left;

    if (!request->incoming.is_limited || !request_body_is_too_large(request, size)) {
        return false;
    }
    request->incoming.refusal = 413;
    return true;
}

static ssize_t read_chunked(struct request *request, struct v1_body *body, void *at, size_t size)
{
    struct conn *conn = v1_conn(request);

    for (;;) {
        struct str input = str_head(conn_input(conn), size);
        size_t before = input.len;
        struct str data;
        int trailers = 1;

        if (body->is_at_trailers) {
            trailers = read_trailers(request, body);
        } else {
            enum chunked_result result = chunked_decode(&body->chunked, &input, &data);
            conn_consume(conn, before - input.len);
            request->incoming.received += before - input.len;
            body->decoded += result == CHUNKED_DATA ? data.len : 0;
            if (is_announced_too_large(request, body)) {
                return -1;
            }
            if (result == CHUNKED_DATA) {
                memcpy(at, data.data, data.len);
                return (ssize_t) data.len;
            }
            if (result == CHUNKED_BAD) {
                return body_refuse(request, 400, "client sent invalid chunked body");
            }
            body->is_at_trailers = result == CHUNKED_LAST;
            if (body->is_at_trailers || conn->in_start != conn->in_end) {
                continue;
            }
        }
        if (trailers <= 0) {
            return trailers;
        }
        if (conn_fill(conn, CHUNK_BUFFER, CHUNK_BUFFER + request->server->head_limits.line_max)) {
            continue;
        }
        if (conn->is_input_closed || conn->is_broken) {
            return ended_early(request);
        }
        if (!wait_for_input(request)) {
            return -1;
        }
    }
}

static struct v1_body *v1_body_start(struct request *request)
{
    struct v1_body *body = arena_new(&request->arena, struct v1_body);

    request->wire_state = body;
    if (request->incoming.is_chunked) {
        request_keep_head(request);
    } else {
        body->left =
            request->incoming.sent_length > 0 ? (uint64_t) request->incoming.sent_length : 0;
    }
    return body;
}

/* A client that sends as fast as it is read must not keep the worker from all others. */
#define BURST_MAX (1024 * 1024)

static bool let_others_run(struct request *request, struct v1_body *body, ssize_t n)
{
    body->burst += (uint32_t) n;
    if (body->burst < BURST_MAX || request->incoming.reads_no_further) {
        return true;
    }
    body->burst = 0;
    return fiber_yield() == WAIT_READY;
}

ssize_t v1_read_body(struct request *request, void *at, size_t size)
{
    struct v1_body *body = request->wire_state;
    struct conn *conn = v1_conn(request);

    if (request->incoming.is_read) {
        return 0;
    }
    if (body == NULL) {
        body = v1_body_start(request);
    }
    if (!body->is_started) {
        body->is_started = true;
        if (conn->in_start == conn->in_end && !request->incoming.reads_no_further) {
            request_body_invite(request);
        }
    }
    ssize_t n = request->incoming.is_chunked ? read_chunked(request, body, at, size)
                                             : read_counted(request, body, at, size);
    return n > 0 && !let_others_run(request, body, n) ? -1 : n;
}

/* Of chunks: a look ahead, with a copy of the decoder. Trailers are left to who reads. */
bool v1_has_whole_body(const struct request *request, uint64_t most)
{
    const struct v1_body *body = request->wire_state;
    /* cppcheck-suppress internalAstError ; it cannot read this C */
    struct chunked ahead = body == NULL ? (struct chunked){0} : body->chunked;
    struct str input = conn_input(v1_conn(request));
    enum chunked_result result;
    struct str data;

    if (!request->incoming.is_chunked) {
        uint64_t left = body != NULL ? body->left
                        : request->incoming.sent_length <= 0
                            ? 0
                            : (uint64_t) request->incoming.sent_length;
        return left <= input.len && left <= most;
    }
    if (body != NULL && body->is_at_trailers) {
        return str_starts(input, STR("\r\n"));
    }
    for (uint64_t size = 0; (result = chunked_decode(&ahead, &input, &data)) == CHUNKED_DATA;) {
        size += data.len;
        if (size > most) {
            return false;
        }
    }
    return result == CHUNKED_LAST && str_starts(input, STR("\r\n"));
}
