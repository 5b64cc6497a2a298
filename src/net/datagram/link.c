/* Links to backends: one socket each, read in batches. */
#define _GNU_SOURCE
#include "net/datagram/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/datagram/read.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static void link_ready(struct event_source *source, unsigned events);

static bool bind_link(int fd, const struct datagram_link_options *options, const char **what)
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

bool datagram_link_open(struct datagram_link *link, const struct addr *peer,
                        const struct datagram_link_options *options, const char **what)
{
    int fd = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    *what = "socket()";
    link->had_many = false;
    link->last_turn = 0;
    link->is_slow = options->is_slow;
    event_source_init(&link->source, fd, link_ready);
    if (fd == -1) {
        return false;
    }
    if (options->bind == NULL || bind_link(fd, options, what)) {
        *what = "connect()";
        if (datagram_read_begin() && connect(fd, &peer->any, peer->len) == 0) {
            *what = "epoll_ctl()";
            if (event_add_listener(&link->source, false)) {
                return true;
            }
        }
    }
    int error = errno;
    datagram_link_close(link);
    errno = error;
    return false;
}

/* The loop tells as long as something waits. A link that has much to say is read in batches, after it has said so. */
static void link_ready(struct event_source *source, unsigned events)
{
    struct datagram_link *link = container_of(source, struct datagram_link, source);
    bool is_alone = link->is_slow || (!link->had_many && link->last_turn + 1 < loop_turns());

    link->last_turn = loop_turns();
    if (datagram_read_link(link, is_alone) == DATAGRAM_READ_FAILED) {
        link->owner->failed(link, errno, false);
    }
}

bool datagram_link_send(struct datagram_link *link, struct str datagram)
{
    return send(link->source.fd, datagram.data, datagram.len, MSG_NOSIGNAL) >= 0;
}

void datagram_link_pause(struct datagram_link *link)
{
    event_remove(&link->source);
}

bool datagram_link_resume(struct datagram_link *link)
{
    return event_add_listener(&link->source, false);
}

void datagram_link_close(struct datagram_link *link)
{
    if (link->source.fd != -1) {
        datagram_read_forget(link);
        event_forget(&link->source);
        close(link->source.fd);
        link->source.fd = -1;
    }
}
