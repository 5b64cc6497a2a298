/* TCP handshakes in progress and bound sockets, from sock_diag (netlink). */
#include "net/shards/handshakes.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

#define PEERS_MOST 4096 /* more than this is a flood; its handshakes are not waited for */

/* Called for each socket; false ends the walk. */
typedef bool visit_socket(const struct inet_diag_msg *socket, void *arg);

static int diag_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    struct timeval most = {.tv_usec = 200 * 1000};

    if (fd != -1 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == -1) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The sockets of a query. */
struct diag_query {
    uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP */
    unsigned states;  /* a bit for each state */
};
static const struct diag_query shaking_hands = {IPPROTO_TCP, 1u << TCP_SYN_RECV};
static const struct diag_query listening = {IPPROTO_TCP, 1u << TCP_LISTEN};
/* Unconnected UDP sockets. */
static const struct diag_query receiving = {IPPROTO_UDP, 1u << TCP_CLOSE};

static bool diag_ask(int fd, int family, uint16_t port, struct diag_query query)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } message = {
        .header = {.nlmsg_len = sizeof(message),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = (uint8_t) family,
                    .sdiag_protocol = query.protocol,
                    .idiag_states = query.states,
                    .id.idiag_sport = htons(port)},
    };
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    return sendto(fd, &message, sizeof(message), 0, (struct sockaddr *) &kernel, sizeof(kernel)) ==
           (ssize_t) sizeof(message);
}

/* Parses one datagram of the reply. 1: more follow, 0: it was the last, -1: failure. */
static int diag_take(const void *bytes, size_t len, visit_socket *visit, void *arg)
{
    const struct nlmsghdr *header = bytes;

    for (; NLMSG_OK(header, len); header = NLMSG_NEXT(header, len)) {
        if (header->nlmsg_type == NLMSG_DONE) {
            return 0;
        }
        if (header->nlmsg_type == NLMSG_ERROR ||
            header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
            return -1;
        }
        if (!visit(NLMSG_DATA(header), arg)) {
            return 0;
        }
    }
    return 1;
}

static bool diag_walk(int family, uint16_t port, struct diag_query query, visit_socket *visit,
                      void *arg)
{
    int fd = diag_open();
    int more = -1;

    if (fd == -1) {
        return false;
    }
    size_t size = 32768;
    char *bytes = malloc(size);
    if (bytes != NULL && diag_ask(fd, family, port, query)) {
        do {
            ssize_t n = recv(fd, bytes, size, 0);

            if (n == -1 && errno == EINTR) {
                continue;
            }
            more = n <= 0 ? -1 : diag_take(bytes, (size_t) n, visit, arg);
        } while (more == 1);
    }
    free(bytes);
    close(fd);
    return more == 0;
}

/* Is the local address of the socket addr, or can it be (addr may be a wildcard)? */
static bool is_local(const struct inet_diag_msg *socket, const struct addr *addr)
{
    if (addr_is_wildcard(addr) || socket->idiag_family != addr->any.sa_family) {
        return true;
    }
    size_t size = socket->idiag_family == AF_INET ? 4 : 16;
    const void *local = socket->idiag_family == AF_INET ? (const void *) &addr->v4.sin_addr
                                                        : (const void *) &addr->v6.sin6_addr;
    return memcmp(socket->id.idiag_src, local, size) == 0;
}

/* Visits the sockets of an address; an IPv6 wildcard may also accept IPv4. */
static bool walk_address(const struct addr *addr, struct diag_query query, visit_socket *visit,
                         void *arg)
{
    if (addr->any.sa_family == AF_INET6 &&
        !diag_walk(AF_INET6, addr_port(addr), query, visit, arg)) {
        return false;
    }
    if (addr->any.sa_family == AF_INET6 && !addr_is_wildcard(addr)) {
        return true;
    }
    return diag_walk(AF_INET, addr_port(addr), query, visit, arg);
}

/* ---- handshakes ---- */

struct handshakes {
    struct addr addr; /* the listening address */
    unsigned owners;
    unsigned count;             /* of peers; PEERS_MOST + 1 = too many */
    uint64_t peers[PEERS_MOST]; /* hashes of address and port */
};

static uint64_t peer_hash(const struct inet_diag_msg *socket)
{
    struct str address = {(const char *) socket->id.idiag_dst, sizeof(socket->id.idiag_dst)};

    return (uint64_t) str_hash(address) << 16 | socket->id.idiag_dport;
}

static bool remember(const struct inet_diag_msg *socket, void *arg)
{
    struct handshakes *handshakes = arg;

    if (is_local(socket, &handshakes->addr)) {
        if (handshakes->count == PEERS_MOST) {
            handshakes->count++;
            return false;
        }
        handshakes->peers[handshakes->count++] = peer_hash(socket);
    }
    return true;
}

struct handshakes *handshakes_of(const struct addr *addr)
{
    struct handshakes *handshakes = malloc(sizeof(*handshakes));

    if (handshakes == NULL) {
        return NULL;
    }
    handshakes->addr = *addr;
    handshakes->owners = 1;
    handshakes->count = 0;
    if (!walk_address(addr, shaking_hands, remember, handshakes) ||
        handshakes->count > PEERS_MOST) {
        free(handshakes);
        return NULL;
    }
    return handshakes;
}

struct search {
    const struct handshakes *among;
    bool is_found;
};

static bool look_for(const struct inet_diag_msg *socket, void *arg)
{
    struct search *search = arg;
    uint64_t hash = peer_hash(socket);

    for (unsigned i = 0; i < search->among->count; i++) {
        if (search->among->peers[i] == hash) {
            search->is_found = true;
            return false;
        }
    }
    return true;
}

bool handshakes_go_on(const struct handshakes *handshakes)
{
    struct search search = {.among = handshakes};

    return handshakes->count != 0 &&
           walk_address(&handshakes->addr, shaking_hands, look_for, &search) && search.is_found;
}

struct handshakes *handshakes_share(struct handshakes *handshakes)
{
    if (handshakes != NULL) {
        handshakes->owners++;
    }
    return handshakes;
}

void handshakes_free(struct handshakes *handshakes)
{
    if (handshakes != NULL && --handshakes->owners == 0) {
        free(handshakes);
    }
}

struct counting {
    const struct addr *addr;
    int count;
};

static bool count_one(const struct inet_diag_msg *socket, void *arg)
{
    struct counting *counting = arg;

    counting->count += is_local(socket, counting->addr);
    return true;
}

int handshakes_count(const struct addr *addr)
{
    struct counting counting = {.addr = addr};

    return walk_address(addr, shaking_hands, count_one, &counting) ? counting.count : -1;
}

/* ---- bound sockets ---- */

struct foreign {
    const struct addr *addr;
    bool is_found;
};

/*
 * Only an equal address conflicts. Others overlap at most, and the kernel accepts that between
 * sockets with SO_REUSEPORT.
 */
static bool look_for_foreign(const struct inet_diag_msg *socket, void *arg)
{
    struct foreign *foreign = arg;
    struct addr local = {0};

    if (socket->idiag_family != foreign->addr->any.sa_family) {
        return true;
    }
    local = *foreign->addr;
    if (socket->idiag_family == AF_INET) {
        memcpy(&local.v4.sin_addr, socket->id.idiag_src, 4);
    } else {
        memcpy(&local.v6.sin6_addr, socket->id.idiag_src, 16);
    }
    if (addr_equal(&local, foreign->addr)) {
        foreign->is_found = true;
        return false;
    }
    return true;
}

int bound_elsewhere(const struct addr *addr, bool is_datagram)
{
    struct foreign foreign = {.addr = addr};

    if (!walk_address(addr, is_datagram ? receiving : listening, look_for_foreign, &foreign)) {
        return -1;
    }
    return foreign.is_found;
}
