/*
 * Datagrams to clients: gathered while the loop turns, and written with one system call for many.
 * Successive ones of equal size for one client are one buffer that the kernel cuts (UDP_SEGMENT).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/datagram/ids.h"
#include "net/datagram/private.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define ITEMS_MOST 64u
#define ROOM (4u * 65536u)
/* What is cut must fit the smallest usual way (1280 bytes of IPv6 and its headers), as the kernel
 * cuts no fragments. */
#define SEGMENT_MOST 1232u
#define SEGMENTS_MOST 64u
#define SEGMENTED_MOST 60000u
#define RETRY_MS 1

/* One buffer for one client: a datagram, or several of `segment` bytes, of which the last may be
 * shorter. */
struct item {
    struct datagram_flow *flow; /* only if its life is still this */
    uint32_t life;
    struct addr peer;
    struct datagram_key key;
    size_t at, len;   /* in the room */
    size_t segment;   /* bytes of the first */
    unsigned count;   /* datagrams */
    bool is_complete; /* the last one was shorter: no more fit in */
};

static struct {
    struct datagram_port *port; /* of all items */
    struct item items[ITEMS_MOST];
    unsigned first, count; /* items that wait are [first, count) */
    size_t used;           /* bytes of the room */
    struct deferred flush; /* at the end of the turn */
    struct timer retry;    /* when the socket takes no more */
    struct failure {
        struct datagram_flow *flow; /* only if its life is still this */
        uint32_t life;
        int error;
    } failures[ITEMS_MOST];  /* not reported yet: the sender is in the middle of something */
    unsigned failure_count;  /* beyond these none is reported */
    struct deferred telling; /* at the end of the turn */
    bool is_ready;           /* deferred and timer are made */
    unsigned char room[ROOM];
} out;

/* What sendmmsg is given. */
static struct mmsghdr messages[ITEMS_MOST];
static struct iovec pieces[ITEMS_MOST];
static union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
} controls[ITEMS_MOST];

/* ---- what goes along ---- */

static struct cmsghdr *put_control(struct msghdr *message, int level, int type, size_t size)
{
    struct cmsghdr *header =
        (struct cmsghdr *) ((char *) message->msg_control + message->msg_controllen);

    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    message->msg_controllen += CMSG_SPACE(size);
    return header;
}

static void put_source(struct msghdr *message, const struct item *item)
{
    if (item->key.family == AF_INET) {
        struct in_pktinfo info = {.ipi_ifindex = 0};

        memcpy(&info.ipi_spec_dst, item->key.local, sizeof(info.ipi_spec_dst));
        memcpy(CMSG_DATA(put_control(message, IPPROTO_IP, IP_PKTINFO, sizeof(info))), &info,
               sizeof(info));
    } else if (item->key.family == AF_INET6) {
        struct in6_pktinfo info = {.ipi6_ifindex = item->key.scope};

        memcpy(&info.ipi6_addr, item->key.local, sizeof(info.ipi6_addr));
        memcpy(CMSG_DATA(put_control(message, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(info))), &info,
               sizeof(info));
    }
}

static void datagram_output_prepare(unsigned i)
{
    struct item *item = &out.items[i];
    struct msghdr *message = &messages[i].msg_hdr;

    memset(&controls[i], 0, sizeof(controls[i]));
    pieces[i] = (struct iovec){out.room + item->at, item->len};
    *message = (struct msghdr){.msg_name = &item->peer.any,
                               .msg_namelen = item->peer.len,
                               .msg_iov = &pieces[i],
                               .msg_iovlen = 1,
                               .msg_control = controls[i].bytes};
    if (out.port->is_wildcard) {
        put_source(message, item);
    }
    if (item->count > 1) {
        uint16_t size = (uint16_t) item->segment;

        memcpy(CMSG_DATA(put_control(message, IPPROTO_UDP, UDP_SEGMENT, sizeof(size))), &size,
               sizeof(size));
    }
    if (message->msg_controllen == 0) {
        message->msg_control = NULL;
    }
}

/* ---- sending ---- */

static void tell_failures(struct deferred *deferred)
{
    /* The owner that is called may send, and fail again. */
    struct failure failures[ITEMS_MOST];
    unsigned count = out.failure_count;

    memcpy(failures, out.failures, count * sizeof(failures[0]));
    out.failure_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct datagram_flow *flow = failures[i].flow;

        if (flow->life == failures[i].life) {
            flow->owner->failed(flow, failures[i].error);
        }
    }
}

static void item_failed(const struct item *item, int error)
{
    if (item->flow->life == item->life && out.failure_count < ITEMS_MOST) {
        out.failures[out.failure_count++] = (struct failure){item->flow, item->life, error};
        loop_defer(&out.telling);
    }
}

/* The kernel does not cut: one by one, from now on at this port. */
static void send_pieces(const struct item *item, struct msghdr message)
{
    struct iovec piece;

    message.msg_iov = &piece;
    message.msg_controllen -= CMSG_SPACE(sizeof(uint16_t));
    for (size_t at = 0; at < item->len; at += item->segment) {
        size_t left = item->len - at;

        piece =
            (struct iovec){out.room + item->at + at, left < item->segment ? left : item->segment};
        datagram_counts.writes++;
        if (sendmsg(out.port->send_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == -1) {
            datagram_counts.dropped++;
        } else {
            datagram_counts.sent++;
        }
    }
}

/* The first item that waits could not be sent. False: later. */
static bool first_failed(int error)
{
    const struct item *item = &out.items[out.first];

    if (error == EAGAIN || error == ENOBUFS) {
        timer_set(&out.retry, clock_now.now_ms + RETRY_MS);
        return false;
    }
    if (error == EINTR) {
        return true;
    }
    unsigned i = out.first++;
    if (item->count > 1 && (error == EINVAL || error == EIO || error == EMSGSIZE)) {
        out.port->is_segmenting_refused = true;
        send_pieces(item, messages[i].msg_hdr);
    } else {
        datagram_counts.dropped += item->count;
        item_failed(item, error);
    }
    return true;
}

static void flush(void)
{
    while (out.first < out.count) {
        for (unsigned i = out.first; i < out.count; i++) {
            datagram_output_prepare(i);
        }
        datagram_counts.writes++;
        int n = sendmmsg(out.port->send_fd, messages + out.first, out.count - out.first,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == -1 && !first_failed(errno)) {
            return;
        }
        for (; n > 0; n--) {
            datagram_counts.sent += out.items[out.first++].count;
        }
    }
    out.first = out.count = 0;
    out.used = 0;
}

static void flush_deferred(struct deferred *deferred)
{
    flush();
}

static void retry_due(struct timer *timer)
{
    flush();
}

void datagram_output_flush(const struct datagram_port *port)
{
    if (out.count != 0 && (port == NULL || out.port == port)) {
        flush();
    }
}

void datagram_output_end(void)
{
    if (out.is_ready) {
        loop_undefer(&out.flush);
        loop_undefer(&out.telling);
        timer_remove(&out.retry);
    }
    out.first = out.count = 0;
    out.used = 0;
    out.failure_count = 0;
    out.is_ready = false;
}

/* ---- gathering ---- */

/* One more of the same size behind the last item's. */
static bool joins_last(const struct datagram_flow *flow, size_t len)
{
    if (out.count == out.first) {
        return false;
    }
    const struct item *last = &out.items[out.count - 1];
    return last->flow == flow && last->life == flow->life && !last->is_complete && len != 0 &&
           len <= last->segment && last->segment <= SEGMENT_MOST && last->count < SEGMENTS_MOST &&
           last->len + len <= SEGMENTED_MOST && !flow->port->is_segmenting_refused &&
           flow->key.family != AF_UNIX;
}

static bool has_room(size_t len)
{
    return out.count < ITEMS_MOST && out.used + len <= ROOM;
}

static struct item *item_new(struct datagram_flow *flow)
{
    struct item *item = &out.items[out.count++];

    *item = (struct item){.flow = flow,
                          .life = flow->life,
                          .peer = flow->peer,
                          .key = flow->key,
                          .at = out.used};
    return item;
}

/* A client that moved may be one that sends from another's address. */
static bool may_have(struct datagram_flow *flow, size_t len)
{
    if (!flow->is_unproved) {
        return true;
    }
    if (flow->credit < len) {
        datagram_counts.dropped++;
        return false;
    }
    flow->credit -= len;
    return true;
}

bool datagram_send(struct datagram_flow *flow, struct str datagram)
{
    struct item *item;

    if (__builtin_expect(flow->port->listener->flow_ids != DATAGRAM_IDS_NONE, 0)) {
        identity_learn(flow, datagram);
    }
    if (!may_have(flow, datagram.len)) {
        return false;
    }
    if (!out.is_ready) {
        deferred_init(&out.flush, flush_deferred);
        deferred_init(&out.telling, tell_failures);
        timer_init(&out.retry, retry_due);
        out.is_ready = true;
    }
    flow->was_answered = true;
    if (out.port != flow->port || !has_room(datagram.len)) {
        flush();
        if (out.count != 0 && (out.port != flow->port || !has_room(datagram.len))) {
            datagram_counts.dropped++;
            return true;
        }
        out.port = flow->port;
    }
    if (joins_last(flow, datagram.len)) {
        item = &out.items[out.count - 1];
        item->is_complete = datagram.len < item->segment;
    } else {
        item = item_new(flow);
        item->segment = datagram.len;
    }
    memcpy(out.room + out.used, datagram.data, datagram.len);
    item->len += datagram.len;
    item->count++;
    out.used += datagram.len;
    loop_defer(&out.flush);
    return true;
}
