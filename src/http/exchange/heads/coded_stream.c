/* Requests on connections that they share: how their fibers are woken, and how they fail. */
#include "http/exchange/heads/coded_stream.h"

#include <stdarg.h>
#include <stdio.h>

void coded_stream_make(struct coded_stream *stream, struct exchange *x,
                       const struct coded_request *request)
{
    stream->x = x;
    stream->sent_request = *request;
    stream->response.is_head = str_is(request->method, "HEAD");
    stream->response.keeps_trailers = request->keeps_trailers;
    x->channel_state = stream;
}

struct coded_stream coded_stream_begin(struct exchange *x,
                                       void (*drop_body)(struct coded_stream *stream))
{
    const struct coded_stream *stream = x->channel_state;

    return (struct coded_stream){.x = x,
                                 .drop_body = drop_body,
                                 .sent_request = stream->sent_request,
                                 .response = {.is_head = stream->response.is_head,
                                              .keeps_trailers = stream->response.keeps_trailers},
                                 .had_sent = x->has_sent};
}

void coded_stream_wake(struct coded_stream *stream)
{
    stream->has_pending = true;
    wait_signal_later(&stream->wake);
}

void coded_stream_end(struct coded_stream *stream)
{
    stream->drop_body(stream);
    coded_stream_wake(stream);
}

void coded_stream_break(struct coded_stream *stream)
{
    stream->is_bad = true;
    coded_stream_end(stream);
}

static void log_text(const struct coded_stream *stream, const char *format, va_list args)
{
    char text[512];

    vsnprintf(text, sizeof(text), format, args);
    exchange_log(stream->x, LOG_ERROR, 0, "%s", text);
}

void coded_stream_fail(struct coded_stream *stream, const char *format, ...)
{
    va_list args;

    if (stream->is_bad) {
        return;
    }
    va_start(args, format);
    log_text(stream, format, args);
    va_end(args);
    coded_stream_break(stream);
}

void coded_stream_lose(struct coded_stream *stream, const char *text, bool is_shared)
{
    exchange_log(stream->x, LOG_ERROR, 0, "%s", text);
    stream->is_bad = stream->has_heard || !is_shared;
    coded_stream_end(stream);
}

void coded_stream_refuse(struct coded_stream *stream, const char *format, ...)
{
    struct exchange *x = stream->x;
    va_list args;

    if (!stream->is_refused) {
        va_start(args, format);
        log_text(stream, format, args);
        va_end(args);
    }
    stream->is_refused = x->was_refused = true;
    if (x->body_mode != SENT_BODY_STREAMED || upload_is_kept(x)) {
        x->has_sent = stream->had_sent; /* it may be repeated, whatever its method */
    }
    coded_stream_end(stream);
}

bool coded_stream_fill(struct exchange *x)
{
    struct coded_stream *stream = x->channel_state;
    bool has_pending = stream->has_pending;

    stream->has_pending = false;
    return has_pending;
}
