/*
 * A request on a connection that it shares with others, by HTTP/2 and HTTP/3: what both keep of it,
 * how its fiber is woken, and how it fails. Each has a struct of its own that begins with this one.
 */
#ifndef HTTP_EXCHANGE_HEADS_CODED_STREAM_H
#define HTTP_EXCHANGE_HEADS_CODED_STREAM_H

#include <stdbool.h>

#include "fiber/fiber.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/coded_request.h"
#include "http/exchange/heads/coded_response.h"

/* In the request's arena, at the beginning of x->channel_state. */
struct coded_stream {
    struct exchange *x;
    void (*drop_body)(struct coded_stream *stream); /* nothing more of the request's body is sent */
    struct wait_point wake;                         /* the fiber of the request */
    struct wait_point room;                         /* the fiber that uploads the body */
    struct coded_request sent_request;              /* of the module */
    struct coded_response response;
    bool is_all_given;    /* of the request's body: nothing comes after what was given */
    bool is_output_ended; /* the end of the request was sent, or the backend wants no more */
    bool has_heard;       /* frames of a response came */
    bool has_pending;     /* something came since channel.fill looked */
    bool is_input_ended;  /* the end of the response came */
    bool is_bad;          /* a rule was broken: logged */
    bool is_refused;      /* the backend has not looked at it */
    bool had_sent;        /* x->has_sent before this attempt */
};

/* For x->head: `stream` is all zero, and becomes the channel's state. */
void coded_stream_make(struct coded_stream *stream, struct exchange *x,
                       const struct coded_request *request);
/* An attempt begins: as it was made, with nothing sent and nothing read. The rest of the channel's
 * state is the caller's. */
struct coded_stream coded_stream_begin(struct exchange *x,
                                       void (*drop_body)(struct coded_stream *stream));

/* Something came for it: its fiber wakes up. */
void coded_stream_wake(struct coded_stream *stream);
/* Its fiber wakes up, and the one that uploads does, too, and ends. */
void coded_stream_end(struct coded_stream *stream);
/* A rule was broken: the request is in vain. */
void coded_stream_break(struct coded_stream *stream);
/* The same, logged once. */
void coded_stream_fail(struct coded_stream *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for all that the connection carries: `text` was logged for no request yet. A request
 * that has heard nothing may be sent to another peer where others were on the connection: for that
 * request it just ended. */
void coded_stream_lose(struct coded_stream *stream, const char *text, bool is_shared);
/* The backend has not looked at it, and it may be sent again. Logged once. */
void coded_stream_refuse(struct coded_stream *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For channel.fill: has something come since the last time? */
bool coded_stream_fill(struct exchange *x);

#endif
