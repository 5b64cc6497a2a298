/* Answers of memcached that are a value: a line before it, the bytes, and what follows them. */
#ifndef HTTP_EXCHANGE_HEADS_VALUE_H
#define HTTP_EXCHANGE_HEADS_VALUE_H

#include "http/exchange/exchange.h"
#include "http/message/memcached_value.h"

/* Where reading a value stands; a part of the protocol's state, in the request's arena. */
struct value_reading {
    struct str key;  /* escaped, as it was asked for */
    uint64_t left;   /* bytes of the value still to come */
    unsigned end_at; /* bytes of MEMCACHED_VALUE_END that were seen */
};

/* Begins again, for another attempt; the key stays. */
void value_begin(struct value_reading *reading);

/* The response's first line without its end, which stays in the channel; HEAD_MORE, HEAD_BAD
 * (logged) or HEAD_DONE. */
enum head_result value_line(struct exchange *x, struct str *line);

/* Says in the log which part of the response is not as it should be; the whole line, at most 256
 * bytes. HEAD_BAD. */
enum head_result value_refuse(struct exchange *x, struct str line);

/* The response is the value that a line of VALUE announces. False, logged: a part of the line is
 * wrong. */
bool value_announced(struct exchange *x, struct value_reading *reading, struct str line,
                     struct memcached_value *value);

/* There is no such entry: a 404 with our page, on a connection that may be kept. HEAD_DONE. */
enum head_result value_not_found(struct exchange *x);

/* The next bytes of the value, or what has to follow it; the connection may be kept then. */
enum body_result value_read(struct exchange *x, struct value_reading *reading, struct str *data);

#endif
