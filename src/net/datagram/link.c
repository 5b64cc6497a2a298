/* Links to backends: one socket each, read in batches, and handed on to the next link. */
#define _GNU_SOURCE
#include "net/datagram/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/datagram/read.h"
#include "net/datagram/spare.h"

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

/* False with errno. */
static bool socket_open(struct datagram_link *link, int family, const char **what)
{
    const int type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

    *what = "socket()";
    link->source.fd = socket(family, type, 0);
    if (link->source.fd == -1 && (errno == EMFILE || errno == ENFILE)) {
        datagram_spares_close();
        link->source.fd = socket(family, type, 0);
    }
    return link->source.fd != -1;
}

/* One that another link had. False: there is none that will do. */
static bool reopen(struct datagram_link *link, const struct addr *peer)
{
    if (!datagram_spare_take(peer->any.sa_family, &link->source)) {
        return false;
    }
    if (connect(link->source.fd, &peer->any, peer->len) == 0) {
        return true;
    }
    event_forget(&link->source);
    close(link->source.fd);
    link->source.fd = -1;
    return false;
}

bool datagram_link_open(struct datagram_link *link, const struct addr *peer,
                        const struct datagram_link_options *options, const char **what)
{
    link->had_many = false;
    link->last_turn = 0;
    link->is_slow = options->is_slow;
    link->reused_as = options->bind == NULL ? peer->any.sa_family : 0;
    event_source_init(&link->source, -1, link_ready);
    if (options->bind == NULL && reopen(link, peer)) {
        return true;
    }
    if (!socket_open(link, peer->any.sa_family, what)) {
        return false;
    }
    if (options->bind == NULL || bind_link(link->source.fd, options, what)) {
        *what = "connect()";
        if (datagram_read_begin() && connect(link->source.fd, &peer->any, peer->len) == 0) {
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
        if (datagram_spare_put(link->reused_as, &link->source)) {
            return;
        }
        event_forget(&link->source);
        close(link->source.fd);
        link->source.fd = -1;
    }
}
