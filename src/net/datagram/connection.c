/* Connections to backends: one socket each, read in batches, and reused by the next connection. */
#define _GNU_SOURCE
#include "net/datagram/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/datagram/read.h"
#include "net/datagram/spare.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static void connection_ready(struct event_source *source, unsigned events);

static bool bind_connection(int fd, const struct datagram_connection_options *options,
                            const char **what)
{
    int on = 1;

    if (options->is_transparent) {
        bool is_v6 = options->bind->any.sa_family == AF_INET6;
        int level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
        int name = is_v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT;

        *what = is_v6 ? "setsockopt(IPV6_TRANSPARENT)" : "setsockopt(IP_TRANSPARENT)";
        if (setsockopt(fd, level, name, &on, sizeof(on)) == -1) {
            return false;
        }
    }
    *what = "bind()";
    return bind(fd, &options->bind->any, options->bind->len) == 0;
}

/* False with errno. */
static bool socket_open(struct datagram_connection *connection, int family, const char **what)
{
    const int type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

    *what = "socket()";
    connection->source.fd = socket(family, type, 0);
    if (connection->source.fd == -1 && (errno == EMFILE || errno == ENFILE)) {
        datagram_spares_close();
        connection->source.fd = socket(family, type, 0);
    }
    return connection->source.fd != -1;
}

/* One that another connection had. False: there is none that will do. */
static bool reopen(struct datagram_connection *connection, const struct addr *peer)
{
    if (!datagram_spare_take(peer->any.sa_family, &connection->source)) {
        return false;
    }
    if (connect(connection->source.fd, &peer->any, peer->len) == 0) {
        return true;
    }
    event_forget(&connection->source);
    close(connection->source.fd);
    connection->source.fd = -1;
    return false;
}

bool datagram_connection_open(struct datagram_connection *connection, const struct addr *peer,
                              const struct datagram_connection_options *options, const char **what)
{
    connection->had_many = false;
    connection->last_turn = 0;
    connection->is_slow = options->is_slow;
    connection->reused_as = options->bind == NULL ? peer->any.sa_family : 0;
    event_source_init(&connection->source, -1, connection_ready);
    if (options->bind == NULL && reopen(connection, peer)) {
        return true;
    }
    if (!socket_open(connection, peer->any.sa_family, what)) {
        return false;
    }
    if (options->bind == NULL || bind_connection(connection->source.fd, options, what)) {
        *what = "connect()";
        if (datagram_read_begin() && connect(connection->source.fd, &peer->any, peer->len) == 0) {
            *what = "epoll_ctl()";
            if (event_add_listener(&connection->source, false)) {
                return true;
            }
        }
    }
    int error = errno;
    datagram_connection_close(connection);
    errno = error;
    return false;
}

/* The loop reports as long as something waits. One whose last read found several datagrams is read
 * in batches. */
static void connection_ready(struct event_source *source, unsigned events)
{
    struct datagram_connection *connection =
        container_of(source, struct datagram_connection, source);
    bool is_alone =
        connection->is_slow || (!connection->had_many && connection->last_turn + 1 < loop_turns());

    connection->last_turn = loop_turns();
    if (datagram_read_connection(connection, is_alone) == DATAGRAM_READ_FAILED) {
        connection->owner->failed(connection, errno, false);
    }
}

bool datagram_connection_send(struct datagram_connection *connection, struct str datagram)
{
    return send(connection->source.fd, datagram.data, datagram.len, MSG_NOSIGNAL) >= 0;
}

void datagram_connection_pause(struct datagram_connection *connection)
{
    event_remove(&connection->source);
}

bool datagram_connection_resume(struct datagram_connection *connection)
{
    return event_add_listener(&connection->source, false);
}

void datagram_connection_close(struct datagram_connection *connection)
{
    if (connection->source.fd != -1) {
        datagram_read_forget(connection);
        if (datagram_spare_put(connection->reused_as, &connection->source)) {
            return;
        }
        event_forget(&connection->source);
        close(connection->source.fd);
        connection->source.fd = -1;
    }
}
