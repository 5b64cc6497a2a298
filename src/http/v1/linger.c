/* The lingering close: our side is shut, and what the client still sends is read and dropped. Who was answered
 * by early data (RFC 8446, 2.3) finishes the handshake before. */
#include "base/clock.h"
#include "http/v1/v1.h"
#include "net/tls/tls.h"

static void linger_input(struct conn *conn)
{
    struct http_connection *http = conn->user;
    bool was_early = tls_is_early(conn);

    /* At most so much at a time: a client that sends without end is not to keep the worker. */
    for (unsigned reads = 0; reads < 64; reads++) {
        conn->in_start = conn->in_end;
        if (!conn_fill(conn, V1_FIRST_BUFFER, V1_FIRST_BUFFER)) {
            break;
        }
    }
    conn->in_start = conn->in_end;
    if (was_early && !tls_is_early(conn)) {
        conn_shutdown_output(conn);
    }
    if (conn->is_broken || conn->is_input_closed || clock_now.now_ms >= http->linger_until_ms) {
        connection_close(http);
        return;
    }
    conn_input_release(conn);
    uint64_t deadline = clock_now.now_ms + http->rest_location->lingering_timeout_ms;
    conn_set_deadline(conn, deadline < http->linger_until_ms ? deadline : http->linger_until_ms);
    if (!conn_watch(conn)) {
        connection_close(http);
    }
}

static void linger_timeout(struct conn *conn)
{
    connection_close(conn->user);
}

const struct conn_owner v1_lingering_owner = {
    .input = linger_input,
    .timed_out = linger_timeout,
};

void v1_linger(struct http_connection *http, const struct http_location *location)
{
    http->state = V1_LINGERING;
    http->rest_location = location;
    http->conn->owner = &v1_lingering_owner;
    if (!tls_is_early(http->conn)) {
        conn_shutdown_output(http->conn);
    }
    linger_input(http->conn);
}
