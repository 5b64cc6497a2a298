/* Heads of responses: how protocols read them. */
#ifndef HTTP_EXCHANGE_HEADS_RESPONSE_HEAD_H
#define HTTP_EXCHANGE_HEADS_RESPONSE_HEAD_H

#include "http/exchange/exchange.h"

/*
 * The status line at the start of input (RFC 9112, 4): version, status, reason (empty when it is
 * the usual one); slices of input. HEAD_DONE: *used is its length with the line end. HEAD_BAD is
 * not logged.
 */
enum head_result upstream_response_parse_status_line(struct str input,
                                                     struct upstream_response *response,
                                                     size_t *used);

/* The same of the channel's input, which is consumed up to the line's end when it is whole. */
enum head_result upstream_response_read_status_line(struct exchange *x);

/*
 * Reads header lines of a response up to the empty line, for HTTP, FastCGI, SCGI and uwsgi: names
 * and values into x->response.fields, copied to the request's arena; content_length. HEAD_DONE:
 * *used is their length with the empty line. HEAD_MORE: to be called again with more input, from
 * the first line. HEAD_BAD: malformed, too big (settings->buffer_size), or with framing fields that
 * are malformed, doubled or contradict each other; logged. Single-valued fields that come again are
 * marked removed. is_cgi: `Status` gives status and reason (RFC 3875, 6.3); without it a Location
 * means 302, else it is 200; a status that is there already stays.
 */
enum head_result upstream_response_parse_fields(struct exchange *x, struct str input, bool is_cgi,
                                                size_t *used);

/* What fields that were read say together: content_length is set, those that are not believed are
 * marked removed. False: they contradict each other; logged. */
bool upstream_response_check_fields(struct exchange *x);

/* Applications that are asked with HEAD announce a body and send none (RFC 3875, 4.3.3), or send it
 * all the same. */
static inline bool upstream_response_is_head_alone(const struct exchange *x)
{
    return x->request->method == METHOD_HEAD && x->body_received == 0;
}

/* The same on the channel's input, which is consumed when they are whole. */
enum head_result upstream_response_read_fields(struct exchange *x, bool is_cgi);

#endif
