/* Reading: many datagrams with one system call, and what the kernel tells of each. */
#define _GNU_SOURCE
#include "net/datagram/read.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/checksum.h"
#include "net/datagram/packet.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define BATCH 32u
#define LINK_BATCH 8u
#define PIECE ((size_t) 65536) /* room of one; memory is touched as far as datagrams reach */
#define ROUNDS_MOST 4          /* calls in a row, so that others have their turn */

static struct mmsghdr messages[BATCH];
static struct iovec pieces[BATCH];
static struct addr peers[BATCH];
static union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int))];
} controls[BATCH];
static char *room; /* BATCH pieces */

bool datagram_read_begin(void)
{
    if (room != NULL) {
        return true;
    }
    void *memory = mmap(NULL, BATCH * PIECE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    madvise(memory, BATCH * PIECE, MADV_NOHUGEPAGE);
    room = memory;
    for (unsigned i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){room + i * PIECE, PIECE};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &peers[i].any,
                                              .msg_iov = &pieces[i],
                                              .msg_iovlen = 1,
                                              .msg_control = controls[i].bytes};
    }
    return true;
}

void datagram_read_end(void)
{
    if (room != NULL) {
        munmap(room, BATCH * PIECE);
        room = NULL;
    }
}

/* What the kernel says of a message besides. */
struct ancillary {
    unsigned ecn;
    size_t segment; /* bytes of each datagram, where it has put several together; 0 = it is one */
    uint32_t lost;  /* datagrams that it has dropped before, for want of room; 0 = unknown */
};

static void read_number(const struct cmsghdr *header, struct ancillary *ancillary)
{
    int number;

    memcpy(&number, CMSG_DATA(header), sizeof(number));
    if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
        ancillary->segment = (size_t) number;
    } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS) {
        ancillary->ecn = (unsigned) number & 3u;
    } else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL) {
        ancillary->lost = (uint32_t) number;
    }
}

static void read_controls(struct msghdr *message, struct datagram_key *key,
                          struct ancillary *ancillary)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;

            memcpy(&info, CMSG_DATA(header), sizeof(info));
            memcpy(key->local, &info.ipi_addr, sizeof(info.ipi_addr));
        } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;

            memcpy(&info, CMSG_DATA(header), sizeof(info));
            memcpy(key->local, &info.ipi6_addr, sizeof(info.ipi6_addr));
        } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
            ancillary->ecn = *(const unsigned char *) CMSG_DATA(header) & 3u;
        } else if (header->cmsg_len >= CMSG_LEN(sizeof(int))) {
            read_number(header, ancillary);
        }
    }
}

/* The client is identified by what the listener says, instead of by its address. */
static void key_by_text(struct listener *listener, const struct addr *peer,
                        struct datagram_key *key)
{
    struct str text = listener->flow_key(listener, peer);

    if (text.len == 0) {
        return;
    }
    const uint64_t halves[] = {keyed_hash(text), (uint64_t) text.len << 32 | murmur2_of(text)};
    memcpy(key->peer, halves, sizeof(key->peer));
    key->peer_port = 0;
    key->scope = 0;
}

static void make_key(const struct datagram_port *port, const struct addr *peer,
                     struct datagram_key *key)
{
    memset(key, 0, sizeof(*key));
    key->set = port->set;
    key->family = port->addr.any.sa_family;
    if (key->family == AF_INET) {
        memcpy(key->peer, &peer->v4.sin_addr, sizeof(peer->v4.sin_addr));
        key->peer_port = peer->v4.sin_port;
    } else if (key->family == AF_INET6) {
        memcpy(key->peer, &peer->v6.sin6_addr, sizeof(peer->v6.sin6_addr));
        key->peer_port = peer->v6.sin6_port;
        key->scope = peer->v6.sin6_scope_id;
    } else {
        uint64_t hash = keyed_hash(addr_unix_path(peer));

        memcpy(key->peer, &hash, sizeof(hash));
    }
    if (__builtin_expect(port->listener->flow_key != NULL, 0)) {
        key_by_text(port->listener, peer, key);
    }
}

/* The kernel counts over the life of the socket, which is longer than ours; a datagram has the
 * number of when it came. */
static void note_lost(struct datagram_port *port, uint32_t lost)
{
    uint32_t more = lost - port->lost;

    if (more != 0 && more <= INT32_MAX) {
        port->lost = lost;
        datagram_counts.dropped += more;
        port->listener->taker->lost(port, more);
    }
}

/* is_own: it came by the socket of the port's own slot. */
static void read_take(struct datagram_port *port, unsigned i, bool is_own)
{
    struct msghdr *message = &messages[i].msg_hdr;
    struct str rest = {pieces[i].iov_base, messages[i].msg_len};
    struct datagram datagram = {.peer = peers[i]};
    struct ancillary ancillary = {.segment = 0};

    /* The kernel counts a byte after a path that fills all its room. */
    datagram.peer.len =
        message->msg_namelen < sizeof(peers[i].un) ? message->msg_namelen : sizeof(peers[i].un);
    make_key(port, &datagram.peer, &datagram.key);
    if (message->msg_controllen != 0) {
        read_controls(message, &datagram.key, &ancillary);
    }
    datagram.ecn = ancillary.ecn;
    /* A socket that was one of QUIC may say so of its last datagrams when it serves flows already.
     */
    if (ancillary.lost != 0 && is_own && port->listener->taker != NULL) {
        note_lost(port, ancillary.lost);
    }
    do {
        datagram.bytes = str_head(rest, ancillary.segment == 0 ? rest.len : ancillary.segment);
        rest = str_skip(rest, datagram.bytes.len);
        datagram_counts.received++;
        datagram_deliver(port, &datagram, false);
    } while (rest.len != 0);
}

/* How many were there; 0 = none. */
static unsigned read_batch(struct datagram_port *port, int fd)
{
    bool has_controls = port->is_wildcard || port->listener->taker != NULL;

    for (unsigned i = 0; i < BATCH; i++) {
        messages[i].msg_hdr.msg_namelen = sizeof(peers[i].un);
        messages[i].msg_hdr.msg_controllen = has_controls ? sizeof(controls[i].bytes) : 0;
    }
    datagram_counts.reads++;
    int n = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);

    if (n == -1 && errno != EAGAIN && errno != EINTR) {
        log_error(port->listener->log, errno, "recvmmsg() failed");
    }
    return n < 0 ? 0 : (unsigned) n;
}

unsigned datagram_read(struct datagram_port *port, const struct event_source *source)
{
    unsigned sum = 0, n = BATCH;

    for (unsigned round = 0; round < ROUNDS_MOST && n == BATCH && source->fd != -1; round++) {
        n = read_batch(port, source->fd);
        for (unsigned i = 0; i < n; i++) {
            read_take(port, i, source == &port->source);
        }
        sum += n;
    }
    mailboxes_flush();
    return sum;
}

/* ---- connections ---- */

static const struct datagram_connection *link_being_read;

/* One alone costs less than a batch of one. */
static int read_one(const struct datagram_connection *connection)
{
    ssize_t n = recv(connection->source.fd, pieces[0].iov_base, PIECE, MSG_DONTWAIT);

    messages[0].msg_len = n < 0 ? 0 : (unsigned) n;
    return n < 0 ? -1 : 1;
}

static int read_several(const struct datagram_connection *connection)
{
    for (unsigned i = 0; i < LINK_BATCH; i++) {
        messages[i].msg_hdr.msg_namelen = 0;
        messages[i].msg_hdr.msg_controllen = 0;
    }
    return recvmmsg(connection->source.fd, messages, LINK_BATCH, MSG_DONTWAIT, NULL);
}

enum datagram_read datagram_read_connection(struct datagram_connection *connection, bool is_alone)
{
    int n = is_alone ? read_one(connection) : read_several(connection);

    if (n == -1) {
        return errno == EAGAIN || errno == EINTR ? DATAGRAM_READ_DONE : DATAGRAM_READ_FAILED;
    }
    link_being_read = connection;
    for (int i = 0; i < n && link_being_read == connection; i++) {
        connection->owner->received(connection,
                                    (struct str){pieces[i].iov_base, messages[i].msg_len});
    }
    if (link_being_read != connection) {
        return DATAGRAM_READ_GONE;
    }
    link_being_read = NULL;
    connection->had_many = n > 1;
    return DATAGRAM_READ_DONE;
}

void datagram_read_forget(const struct datagram_connection *connection)
{
    if (link_being_read == connection) {
        link_being_read = NULL;
    }
}
