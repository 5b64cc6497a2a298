/*
 * Exchanges without a backend, for unit tests and fuzzing: a request as the fixture makes it, and a channel whose
 * input is a text that arrives as far as the test says.
 */
#ifndef TESTS_HTTP_EXCHANGE_H
#define TESTS_HTTP_EXCHANGE_H

#include "http/exchange/exchange.h"
#include "http/exchange/options/settings.h"

static struct str whole_text;  /* what the backend sends */
static size_t arrived;         /* bytes of it that are there */
static size_t consumed;        /* … of which so many were used */
static bool is_backend_closed; /* nothing comes behind what arrived */

static struct str text_input(struct exchange *x)
{
    return (struct str){whole_text.data + consumed, arrived - consumed};
}

static void text_consume(struct exchange *x, size_t n)
{
    consumed += n;
}

static bool text_fill(struct exchange *x)
{
    return false;
}

static bool text_has_ended(struct exchange *x)
{
    return is_backend_closed;
}

static const struct channel text_channel = {.input = text_input,
                                            .consume = text_consume,
                                            .fill = text_fill,
                                            .has_ended = text_has_ended};

static inline void backend_sends(struct str text, size_t bytes)
{
    whole_text = text;
    arrived = bytes;
    consumed = 0;
    is_backend_closed = false;
}

/* What is left of a protocol's answer, a byte more at a time or all at once; the body is appended to *body. */
static inline enum body_result read_whole_body(struct exchange *x, struct buf *body)
{
    for (;;) {
        struct str data;
        enum body_result result = x->protocol->read_body(x, &data);

        if (result == BODY_DATA) {
            buf_append(body, data);
            continue;
        }
        if (result != BODY_MORE) {
            return result;
        }
        if (arrived == whole_text.len) {
            return x->protocol->body_ended == NULL ? BODY_BAD : x->protocol->body_ended(x);
        }
        arrived++;
    }
}

static inline enum head_result read_whole_head(struct exchange *x)
{
    for (;;) {
        enum head_result result = x->protocol->read_head(x);

        if (result != HEAD_MORE || arrived == whole_text.len) {
            return result;
        }
        arrived++;
    }
}

#endif
