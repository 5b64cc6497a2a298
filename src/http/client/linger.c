/* The end of a TCP connection, and the lingering close: our side is shut, and what the client still
 * sends is read and dropped. A client that was answered by early data (RFC 8446, 2.3) finishes the
 * handshake before. */
#include "base/fatal.h"
#include "base/clock.h"
#include "http/client/stages.h"
#include "http/routing/connection_settings.h"
#include "net/tls/tls.h"

void linger_input(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    bool was_early =
        tls_is_early(conn); /* the handshake, which this reading may finish, was not complete */

    /* A limit for each turn: a client that sends without end must not occupy the worker. */
    for (unsigned reads = 0; reads < 64; reads++) {
        conn->in_start = conn->in_end;
        if (!conn_fill(conn, CONNECTION_FIRST_BUFFER, CONNECTION_FIRST_BUFFER)) {
            break;
        }
    }
    conn->in_start = conn->in_end;
    if (was_early && !tls_is_early(conn)) {
        conn_shutdown_output(conn);
    }
    if (conn->is_broken || conn->is_input_closed ||
        clock_now.now_ms >= connection->linger_until_ms) {
        connection_close(connection);
        return;
    }
    conn_input_release(conn);
    uint64_t deadline =
        clock_now.now_ms + connection->last_location->connections->lingering_timeout_ms;
    conn_set_deadline(conn, deadline < connection->linger_until_ms ? deadline
                                                                   : connection->linger_until_ms);
    if (!conn_watch(conn)) {
        connection_close(connection);
    }
}

void linger_timeout(struct conn *conn)
{
    connection_close(conn->user);
}

void connection_linger(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    connection_leave_protocol(connection);
    loop_undefer(&connection->settle);
    connection_enter(connection, STAGE_LINGERING);
    if (!tls_is_early(connection->conn)) {
        conn_shutdown_output(connection->conn);
    }
    linger_input(connection->conn);
}

void connection_end_later(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    connection_enter(connection, STAGE_ENDING);
    connection->conn->is_ending = 1;
    loop_undefer(&connection->settle);
    loop_defer_last_urgent(&connection->settle);
}

void connection_end(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    if (connection->wants_reset) {
        connection_reset(connection);
    } else {
        connection_close(connection);
    }
}

void connection_close(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    conn_close(connection_free(connection));
}

void connection_reset(struct http_connection *connection)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    conn_reset(connection_free(connection));
}
