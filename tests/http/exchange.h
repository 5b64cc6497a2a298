/*
 * Exchanges without a backend, for unit tests and fuzzing: a request as the fixture makes it, and a
 * channel whose input is a text that arrives as far as the test says.
 */
#ifndef TESTS_HTTP_EXCHANGE_H
#define TESTS_HTTP_EXCHANGE_H

#include <stdlib.h>

#include "base/buf.h"
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

/* What is left of a protocol's answer, a byte more at a time or all at once; the body is appended
 * to *body. */
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

/* ---- fuzzing: an answer whole, and byte by byte ---- */

/* How an answer was taken. */
struct taken_answer {
    enum head_result head;
    enum body_result end; /* of its body, where its head was one */
    bool is_reusable;
    struct buf body;
};

/* Takes the answer of a fresh exchange. A body is never longer than announced, and a link is kept
 * only behind a whole one. */
static inline void take_answer(struct exchange *x, struct str input, size_t at_first,
                               struct taken_answer *out)
{
    int64_t length = -1;

    x->response.content_length = -1;
    x->protocol->begin_response(x);
    backend_sends(input, at_first);
    *out = (struct taken_answer){.head = read_whole_head(x)};
    if (out->head == HEAD_DONE) {
        length = x->response.content_length;
        out->end = read_whole_body(x, &out->body);
        out->is_reusable = x->is_reusable;
    }
    if (length >= 0 &&
        ((int64_t) out->body.len > length ||
         (out->is_reusable && (out->end != BODY_END || (int64_t) out->body.len != length)))) {
        abort();
    }
}

/* How the bytes arrive makes no difference. Frees both. */
static inline void compare_taken(struct taken_answer *a, struct taken_answer *b)
{
    if (a->head != b->head || a->end != b->end || a->is_reusable != b->is_reusable ||
        !str_equal(buf_str(&a->body), buf_str(&b->body))) {
        abort();
    }
    buf_free(&a->body);
    buf_free(&b->body);
}

#endif
