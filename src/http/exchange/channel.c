/* The channel of protocols whose requests have a link for themselves. */
#include "http/exchange/exchange.h"

/* Bytes that one read of a body takes at most; a head fits buffer_size. */
#define BODY_READ_SIZE (64 * 1024)

struct str whole_link_input(struct exchange *x)
{
    return conn_input(x->link->conn);
}

void whole_link_consume(struct exchange *x, size_t n)
{
    conn_consume(x->link->conn, n);
}

bool whole_link_fill(struct exchange *x)
{
    struct conn *conn = x->link->conn;
    size_t first = x->settings->buffer_size;
    uint32_t before = conn->in_end - conn->in_start;

    if (x->response.status >= 200 && x->response.content_length != 0 && before == 0 &&
        x->limit_rate == 0) {
        if (conn->in_size < BODY_READ_SIZE && x->body_received >= first) {
            conn_input_release(conn); /* a long body: fewer, larger reads */
        }
        first = x->body_received >= first ? BODY_READ_SIZE : first;
    }
    if (!conn_fill(conn, first, first)) {
        return false;
    }
    x->attempt->bytes_received += conn->in_end - conn->in_start - before;
    return true;
}

bool whole_link_has_ended(struct exchange *x)
{
    return x->link->conn->is_input_closed || x->link->conn->is_broken;
}

enum wait_result whole_link_wait(struct exchange *x, uint64_t deadline_ms)
{
    return fiber_wait(&x->link->wake, deadline_ms);
}

uint64_t whole_link_unsent(struct exchange *x)
{
    return conn_unsent(x->link->conn);
}

void whole_link_end(struct exchange *x, bool is_reusable)
{
    struct upstream_link *link = x->link;

    x->link = NULL;
    if (is_reusable) {
        link_keep(link); /* if it is sound */
    } else {
        link_close(link);
    }
}

const struct channel whole_link = {
    .input = whole_link_input,
    .consume = whole_link_consume,
    .fill = whole_link_fill,
    .has_ended = whole_link_has_ended,
    .wait = whole_link_wait,
    .unsent = whole_link_unsent,
    .end = whole_link_end,
};
