/* From an accepted descriptor to the protocol that its client speaks: the PROXY protocol's header,
 * TLS, the preface. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/client/stages.h"
#include "server/generation.h"

/* ---- accepting ---- */

static struct http_connection *make(const struct http_listen *listen, struct conn *conn)
{
    struct http_connection *connection = connection_on(listen, conn, listen->protocol);

    conn_set_deadline(conn, clock_now.now_ms + listen->default_server->client_header_timeout_ms);
    return connection;
}

/* NULL: there was no room, and fd is closed. */
static struct http_connection *make_on_socket(struct listener *listener, int fd,
                                              const struct addr *peer)
{
    const struct http_listen *listen = listener->user;
    struct conn *conn = conn_new(fd, peer, NULL, &((struct http_listen *) listen)->log);

    if (conn == NULL) {
        counters_mine->limited++;
        close(fd);
        return NULL;
    }
    return make(listen, conn);
}

/* What the address begins with, after a PROXY header where there is one. */
static void enter_listened(struct http_connection *connection)
{
    enum connection_stage stage = (enum connection_stage) connection->listen->stage;

    if (stage == STAGE_SERVING) {
        connection_serve(connection, connection->protocol);
    } else {
        connection_enter(connection, stage);
    }
}

static void enter_first(struct http_connection *connection)
{
    if (connection->listen->address.is_proxy_protocol) {
        connection_enter(connection, STAGE_PROXY_HEADER);
    } else {
        enter_listened(connection);
    }
}

void http_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *connection = make_on_socket(listener, fd, peer);

    counters_mine->accepted++;
    if (connection != NULL) {
        counters_mine->handled++;
        enter_first(connection);
        conn_start(connection->conn);
    }
}

void http_passed(struct listener *listener, struct conn *conn)
{
    struct http_connection *connection = make(listener->user, conn);

    enter_first(connection);
    conn_take_up(conn);
}

void http_handed_over(struct listener *listener, int fd, const struct addr *peer, const void *state,
                      size_t size)
{
    struct http_connection *connection = make_on_socket(listener, fd, peer);

    if (connection == NULL) {
        return;
    }
    connection_serve(connection, connection->protocol);
    idle_resume(connection, state, size);
}

/* ---- the PROXY protocol's header ---- */

/* False: the connection waits for more of it, or is gone. */
static bool read_proxy_header(struct http_connection *connection)
{
    struct conn *conn = connection->conn;
    struct proxy_header *proxy;
    size_t used;

    conn_fill(conn, CONNECTION_FIRST_BUFFER, PROXY_HEADER_MAX + CONNECTION_FIRST_BUFFER);
    switch (proxy_header_parse(conn_input(conn), &proxy, &used)) {
    case PROXY_HEADER_DONE:
        connection_details(connection)->proxy = proxy;
        conn_consume(conn, used);
        return true;
    case PROXY_HEADER_MORE:
        if (!conn->is_input_closed && !conn->is_broken) {
            if (!conn_watch(conn)) {
                connection_close(connection);
            }
            return false;
        }
        break;
    case PROXY_HEADER_BAD: {
        struct log log;
        struct str start = str_head(conn_input(conn), 80);
        connection_log(connection, connection_action(connection), &log);
        counters_mine->limited++;
        log_error(&log, 0, "broken header: \"%.*s\"", STR_ARG(start));
        break;
    }
    }
    connection_close(connection);
    return false;
}

void proxy_header_input(struct conn *conn)
{
    struct http_connection *connection = conn->user;

    if (read_proxy_header(connection)) {
        enter_listened(connection);
        conn->owner->input(conn);
    }
}

void proxy_header_timeout(struct conn *conn)
{
    struct http_connection *connection = conn->user;

    enter_listened(connection);
    conn->owner->timed_out(conn);
}

/* ---- TLS ---- */

/* What the client has sent is the protocol's. The connection may be gone afterwards. */
static void established(struct http_connection *connection, const struct http_protocol *protocol)
{
    struct conn *conn = connection->conn;
    uint32_t life = conn->life;

    conn_set_deadline(conn, clock_now.now_ms +
                                connection->listen->default_server->client_header_timeout_ms);
    connection_serve(connection, protocol);
    conn->owner->input(conn);
    if (conn->life == life) {
        tls_flush(conn);
    }
}

void handshake_input(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    const struct http_listen *listen = connection->listen;

    switch (listen->default_server->main->handshake->go_on(connection)) {
    case TLS_DONE:
        if (connection->secure_server != NULL) {
            connection->last_location = connection->secure_server->root;
        }
        established(connection, protocol_agreed(listen, tls_alpn(conn)));
        break;
    case TLS_PLAIN:
        established(connection, listen->protocol); /* its requests are refused */
        break;
    case TLS_MORE:
        if (!conn_park(conn)) {
            connection_close(connection);
        }
        break;
    case TLS_FAILED:
        connection_close(connection);
        break;
    }
}

void handshake_timeout(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    struct log log;

    connection_log(connection, connection_action(connection), &log);
    log_info(&log, ETIMEDOUT, "client timed out");
    counters_mine->tls_timeouts++;
    conn_fail(conn, ETIMEDOUT);
    connection_close(connection);
}

/* ---- prior knowledge: which protocol does a client on a plain socket begin with? ---- */

void detection_input(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    const struct http_protocol *protocol;
    bool may_come;

    do {
        struct str input = conn_input(conn);
        protocol = protocol_of_preface(connection->listen, input, &may_come);
    } while (protocol == NULL && may_come &&
             conn_fill(conn, CONNECTION_FIRST_BUFFER, CONNECTION_FIRST_BUFFER * 2));
    if (protocol == NULL && may_come && !conn->is_broken && !conn->is_input_closed) {
        if (!conn_watch(conn)) {
            connection_close(connection);
        }
        return;
    }
    connection_serve(connection, protocol != NULL ? protocol : connection->listen->protocol);
    conn->owner->input(conn);
}

/* It has not said; the message about that is the usual protocol's. */
void detection_timeout(struct conn *conn)
{
    struct http_connection *connection = conn->user;

    connection_serve(connection, connection->listen->protocol);
    conn->owner->timed_out(conn);
}
