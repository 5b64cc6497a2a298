/* Datagrams on their way out: trains of many connections leave with one system call; the kernel
 * cuts each (UDP_SEGMENT). */
#define _GNU_SOURCE
#include "net/quic/private.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define ITEMS_MOST 64u
#define ROOM (4u * 65536u)
#define RETRY_MS 1

static struct item {
    const struct quic_connection *connection; /* NULL: none, or gone */
    struct quic_addr peer, local;
    bool says_source;
    int fd;
    size_t at;
    struct quic_train train;
} items[ITEMS_MOST];
static unsigned item_count;
static size_t used; /* bytes of the room */
static unsigned char room[ROOM];
static struct timer retry;         /* while the socket takes no more */
static bool is_segmenting_refused; /* the kernel does not cut */

static struct mmsghdr messages[ITEMS_MOST];
static struct iovec pieces[ITEMS_MOST];
static union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int))];
} controls[ITEMS_MOST];

/* ---- what goes along ---- */

static void put_control(struct msghdr *message, int level, int type, const void *data, size_t size)
{
    struct cmsghdr *header =
        (struct cmsghdr *) ((char *) message->msg_control + message->msg_controllen);

    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), data, size);
    message->msg_controllen += CMSG_SPACE(size);
}

static void put_source(struct msghdr *message, const struct quic_addr *local)
{
    if (local->any.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = local->v4.sin_addr};

        put_control(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    } else {
        struct in6_pktinfo info = {.ipi6_addr = local->v6.sin6_addr};

        put_control(message, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
    }
}

static void put_mark(struct msghdr *message, const struct item *item)
{
    int mark = (int) item->train.ecn;

    if (item->peer.any.sa_family == AF_INET) {
        put_control(message, IPPROTO_IP, IP_TOS, &mark, sizeof(mark));
    } else {
        put_control(message, IPPROTO_IPV6, IPV6_TCLASS, &mark, sizeof(mark));
    }
}

static void udp_prepare(unsigned i)
{
    struct item *item = &items[i];
    struct msghdr *message = &messages[i].msg_hdr;

    memset(&controls[i], 0, sizeof(controls[i]));
    pieces[i] = (struct iovec){room + item->at, item->train.size};
    *message =
        (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1, .msg_control = controls[i].bytes};
    if (item->peer.len != 0) {
        message->msg_name = &item->peer.any;
        message->msg_namelen = item->peer.len;
    }
    if (item->says_source) {
        put_source(message, &item->local);
    }
    if (item->train.ecn != 0) {
        put_mark(message, item);
    }
    if (item->train.size > item->train.segment) {
        uint16_t size = (uint16_t) item->train.segment;

        put_control(message, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
    }
    if (message->msg_controllen == 0) {
        message->msg_control = NULL;
    }
}

/* ---- sending ---- */

/* One by one, where the kernel does not cut. What it does not take is lost, as networks lose. */
static void send_pieces(unsigned i)
{
    const struct item *item = &items[i];
    struct msghdr message = messages[i].msg_hdr;
    struct iovec piece;

    message.msg_iov = &piece;
    message.msg_controllen -= CMSG_SPACE(sizeof(uint16_t));
    if (message.msg_controllen == 0) {
        message.msg_control = NULL;
    }
    for (size_t at = 0; at < item->train.size; at += item->train.segment) {
        size_t left = item->train.size - at;

        piece = (struct iovec){room + item->at + at,
                               left < item->train.segment ? left : item->train.segment};
        quic_worker.counts.writes++;
        sendmsg(item->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static void item_failed(unsigned i, int error)
{
    const struct item *item = &items[i];

    if (item->train.size > item->train.segment &&
        (error == EINVAL || error == EIO || error == EMSGSIZE)) {
        is_segmenting_refused = is_segmenting_refused || error != EMSGSIZE;
        send_pieces(i);
    } else if (error == ECONNREFUSED && item->connection != NULL && !item->connection->is_server) {
        struct quic_connection *c = (struct quic_connection *) (uintptr_t) item->connection;

        c->send_error = error;
        quic_wake(c);
    } else if (error != EMSGSIZE && error != EINTR && item->connection != NULL &&
               item->connection->conn != NULL) {
        log_info(item->connection->conn->log, error, "sendmsg() failed for a QUIC packet");
    }
}

/* The socket takes no more for now: what waits stays in its order. */
static void wait_for_room(unsigned first)
{
    memmove(items, items + first, (item_count - first) * sizeof(items[0]));
    item_count -= first;
    timer_set(&retry, clock_now.now_ms + RETRY_MS);
}

/* Items of one socket, from `first` on. */
static unsigned same_socket(unsigned first)
{
    unsigned count = 1;

    while (first + count < item_count && items[first + count].fd == items[first].fd) {
        count++;
    }
    return count;
}

void quic_udp_flush(void)
{
    unsigned first = 0;

    while (first < item_count) {
        unsigned count = same_socket(first);

        for (unsigned i = first; i < first + count; i++) {
            udp_prepare(i);
        }
        quic_worker.counts.writes++;
        int n = items[first].fd == -1 ? (int) count
                                      : sendmmsg(items[first].fd, messages + first, count,
                                                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == -1 && (errno == EAGAIN || errno == ENOBUFS)) {
            wait_for_room(first);
            return;
        }
        if (n <= 0) {
            item_failed(first, errno);
            n = 1;
        }
        first += (unsigned) n;
    }
    item_count = 0;
    used = 0;
}

static void retry_due(struct timer *timer)
{
    quic_udp_flush();
}

void quic_udp_begin(void)
{
    timer_init(&retry, retry_due);
}

void quic_udp_end(void)
{
    timer_remove(&retry);
    item_count = 0;
    used = 0;
}

bool quic_udp_is_blocked(void)
{
    return item_count != 0 && retry.deadline_ms != NO_DEADLINE &&
           retry.deadline_ms > clock_now.now_ms;
}

unsigned char *quic_udp_room(void)
{
    if (item_count == ITEMS_MOST || used + QUIC_TRAIN_MOST > ROOM) {
        quic_udp_flush();
    }
    if (item_count == ITEMS_MOST || used + QUIC_TRAIN_MOST > ROOM) {
        item_count = 0; /* lost, as networks lose */
        used = 0;
    }
    return room + used;
}

void quic_udp_queue(struct quic_connection *c, const struct quic_path *path,
                    const struct quic_train *train)
{
    struct item *item = &items[item_count++];

    *item = (struct item){.connection = c,
                          .peer = path->peer,
                          .local = path->local,
                          .fd = path->fd,
                          .at = used,
                          .train = *train};
    if (path->port != NULL) {
        item->fd = datagram_port_fd(path->port);
        item->says_source = datagram_port_is_wildcard(path->port);
    } else {
        item->peer.len = 0; /* the socket is connected */
    }
    used += train->size;
    if (is_segmenting_refused || (!c->settings->uses_gso && train->size > train->segment)) {
        udp_prepare(item_count - 1);
        send_pieces(item_count - 1);
        item_count--;
        used -= train->size;
    }
}

void quic_udp_forget(const struct quic_connection *c)
{
    for (unsigned i = 0; i < item_count; i++) {
        if (items[i].connection == c) {
            items[i].connection = NULL;
            items[i].fd = c->source.fd == -1 ? items[i].fd : -1; /* it is going to be closed */
        }
    }
}

void quic_udp_answer(struct datagram_port *port, const struct datagram_packet *to,
                     const unsigned char *bytes, size_t size)
{
    memcpy(quic_udp_room(), bytes, size);
    items[item_count++] = (struct item){.peer = quic_addr_of(&to->peer),
                                        .local = quic_addr_of(&to->local),
                                        .says_source = datagram_port_is_wildcard(port),
                                        .fd = datagram_port_fd(port),
                                        .at = used,
                                        .train = {.size = size, .segment = size}};
    used += size;
    loop_defer(&quic_worker.flush);
}
