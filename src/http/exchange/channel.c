/* The channel of protocols whose requests have a connection for themselves. */
#include "http/exchange/exchange.h"

/* Bytes that one read of a body takes at most; a head fits buffer_size. */
#define BODY_READ_SIZE (64 * 1024)

static bool whole_connection_fill(struct exchange *x)
{
    struct conn *conn = x->connection->conn;
    size_t first = x->settings->buffer_size;
    uint32_t before = conn_input_len(conn);

    if (x->response.status >= 200 && x->response.content_length != 0 && before == 0 &&
        x->relay.limit_rate == 0) {
        if (conn->in_size < BODY_READ_SIZE && x->body_received >= first) {
            conn_input_release(conn); /* a long body: fewer, larger reads */
        }
        first = x->body_received >= first ? BODY_READ_SIZE : first;
    }
    if (!conn_fill(conn, first, first)) {
        return false;
    }
    x->attempt->bytes_received += conn_input_len(conn) - before;
    return true;
}

const struct channel whole_connection = {
    .fill = whole_connection_fill,
};

struct ssl_st *exchange_ssl(const struct exchange *x)
{
    return x->connection == NULL ? NULL : tls_ssl(x->connection->conn);
}
