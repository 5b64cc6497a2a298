/* Errors: a stream is woken, cancelled or reset, the whole connection fails; guards, which let it
 * fail. */
#include <stdarg.h>
#include <stdio.h>

#include "http/request/engine.h"
#include "http/v2/v2.h"

#define REASON_MAX 192

void v2_wake(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;

    if (list_is_empty(&stream->woken_node)) {
        list_push_back(&c->woken, &stream->woken_node);
        v2_settle_later(c);
    }
}

void v2_cancel(struct v2_stream *stream, enum v2_reset by)
{
    stream->reset = by;
    stream->is_input_ended = true;
    v2_wake(stream); /* fibers beside the request's, and one that is shielded, are woken, too */
    request_cancel(stream->request);
    v2_tail_drop(stream);
}

void v2_reset(struct v2_stream *stream, enum v2_error error)
{
    if (stream->reset == V2_NOT_RESET) {
        v2_put_reset(stream->connection, stream->id, error);
        v2_cancel(stream, V2_RESET_BY_US);
    }
}

static void cancel_one(struct v2_stream *stream, void *arg)
{
    if (stream->reset == V2_NOT_RESET) {
        v2_cancel(stream, V2_RESET_BY_PEER);
    }
}

void v2_cancel_all(struct v2_connection *c)
{
    v2_each(c, cancel_one, NULL);
}

void v2_fail(struct v2_connection *c, enum v2_error error, const char *reason, ...)
{
    struct log log;
    char text[REASON_MAX];
    va_list args;

    if (c->phase >= V2_FAILED) {
        return;
    }
    if (reason != NULL) {
        connection_log(c->connection, "processing HTTP/2 connection", &log);
        va_start(args, reason);
        vsnprintf(text, sizeof(text), reason, args);
        va_end(args);
        log_info(&log, 0, "client %s", text);
    }
    v2_go_away(c, error);
    c->phase = V2_FAILED;
    v2_cancel_all(c);
}

/* ---- guards: how often a client may do what costs more here than there ---- */

static const struct client_guard_limit limits[GUARD_COUNT] = {V2_GUARDS(CLIENT_GUARD_LIMIT)};

void v2_guard_failed(struct v2_connection *c, const char *what)
{
    if (c->phase >= V2_FAILED) {
        return;
    }
    client_guard_report(c->connection, "processing HTTP/2 connection", what);
    v2_fail(c, V2_ENHANCE_YOUR_CALM, NULL);
}

bool v2_guard(struct v2_connection *c, enum v2_guard guard)
{
    if (client_guard_count(&c->guards[guard], &limits[guard])) {
        return true;
    }
    v2_guard_failed(c, limits[guard].text);
    return false;
}
