/* The client's side: a connected socket of its own for each connection. */
#define _GNU_SOURCE
#include "net/quic/private.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fatal.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define DATAGRAMS_A_TURN 256u
#define BATCH 8u
#define PIECE 65536u /* bytes: the kernel may put many datagrams together (UDP_GRO) */

void quic_set_token(struct quic_connection *c, struct str token)
{
    char *copy = malloc(token.len == 0 ? 1 : token.len);

    if (copy == NULL) {
        fatal_no_memory(token.len);
    }
    str_put(copy, token);
    free((void *) (uintptr_t) c->token.data);
    c->token = (struct str){copy, token.len};
}

static union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(int))];
} controls[BATCH];

/* Bytes of each datagram of a message; 0 = it is one. */
static size_t segment_of(struct msghdr *message)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
            int size;

            memcpy(&size, CMSG_DATA(header), sizeof(size));
            return (size_t) size;
        }
    }
    return 0;
}

static void quic_client_take(struct quic_connection *c, struct msghdr *message, size_t size)
{
    struct str rest = {message->msg_iov->iov_base, size};
    size_t segment = segment_of(message);
    struct datagram_packet packet = {.peer = quic_addr_get(&c->paths[0].peer),
                                     .local = quic_addr_get(&c->paths[0].local)};

    while (rest.len != 0) {
        packet.bytes = str_head(rest, segment == 0 ? rest.len : segment);
        rest = str_skip(rest, packet.bytes.len);
        quic_datagram_received(c, &packet, NULL);
    }
}

/* Gives how many were read. */
static unsigned read_batch(struct quic_connection *c)
{
    static char bytes[BATCH][PIECE];
    struct mmsghdr messages[BATCH];
    struct iovec pieces[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){bytes[i], PIECE};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &pieces[i],
                                                   .msg_iovlen = 1,
                                                   .msg_control = controls[i].bytes,
                                                   .msg_controllen = sizeof(controls[i].bytes)}};
    }
    quic_worker.counts.reads++;
    int n = recvmmsg(c->source.fd, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        quic_client_take(c, &messages[i].msg_hdr, messages[i].msg_len);
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        quic_refused_by_socket(c, errno);
    }
    return n < 0 ? 0 : (unsigned) n;
}

static void socket_ready(struct event_source *source, unsigned events)
{
    struct quic_connection *c = container_of(source, struct quic_connection, source);
    unsigned n = 0, more;

    CHECK_MAGIC(c, QUIC_CONNECTION_MAGIC);
    do {
        more = read_batch(c);
        n += more;
    } while (more == BATCH && n < DATAGRAMS_A_TURN);
}

static bool socket_open(struct quic_connection *c, const struct quic_connecting *connecting)
{
    struct quic_path *path = &c->paths[0];
    socklen_t len = sizeof(path->local.v6);
    int family = connecting->peer.any.sa_family, probe = IP_PMTUDISC_PROBE,
        size = QUIC_CLIENT_BUFFER, on = 1;
    int fd = connecting->fd != -1 ? connecting->fd
                                  : socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return false;
    }
    event_source_init(&c->source, fd, socket_ready);
    quic_path_init(path, &connecting->peer, &connecting->peer);
    path->fd = fd;
    path->is_there = path->is_validated = true;
    if (family == AF_INET) {
        setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
    }
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    if (connecting->fd == -1) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    }
    if (connect(fd, &connecting->peer.any, connecting->peer.len) == -1 ||
        getsockname(fd, &path->local.any, &len) == -1 || !event_add_listener(&c->source, false)) {
        return false;
    }
    path->local.len = len;
    return true;
}

/* What the server gave a former connection of this kind shows it that our address is ours. */
static void take_token(struct quic_connection *c, const struct quic_connecting *connecting)
{
    const uint64_t words[] = {
        connecting->options->identity,
        keyed_hash((struct str){(const char *) &connecting->peer.any, connecting->peer.len}),
    };

    if (connecting->options->identity != 0) {
        c->token_key = keyed_hash((struct str){(const char *) words, sizeof(words)}) | 1;
        c->token = quic_token_take(c->token_key);
    }
}

static const struct quic_secrets *random_secrets(void)
{
    static struct quic_secrets secrets;
    static bool has_secrets;
    unsigned char key[32];

    if (!has_secrets) {
        has_secrets =
            RAND_bytes(key, sizeof(key)) == 1 &&
            quic_secrets_make(&secrets, (struct str){(const char *) key, sizeof(key)}, NULL);
    }
    return &secrets;
}

const struct quic_secrets *quic_secrets_new(struct arena *arena, struct str host_key)
{
    struct quic_secrets *secrets = arena_new(arena, struct quic_secrets);

    return quic_secrets_make(secrets, host_key, NULL) ? secrets : NULL;
}

static bool quic_client_begin(struct quic_connection *c, const struct quic_connecting *connecting)
{
    struct quic_level *level = c->levels[QUIC_SPACE_INITIAL];
    struct quic_cid dcid = {.len = 18};

    if (!socket_open(c, connecting)) {
        return false;
    }
    errno = 0;
    take_token(c, connecting);
    RAND_bytes(dcid.bytes, dcid.len);
    c->original_dcid = dcid;
    c->peer_cids[0] = (struct quic_peer_cid){.cid = dcid, .is_used = true};
    quic_cid_make(c, &c->own_cids[0]);
    return quic_conn_new(c, &connecting->peer, NULL, connecting->log) != NULL &&
           quic_keys_make_initial(&level->read, c->version, quic_cid_str(&dcid), true, false) &&
           quic_keys_make_initial(&level->write, c->version, quic_cid_str(&dcid), false, true) &&
           quic_set_own_parameters(c) &&
           tls_messages_connect(c->conn, connecting->context, connecting->options, &quic_tls_owner,
                                c);
}

struct quic_connection *quic_connect(const struct quic_connecting *connecting,
                                     const struct quic_owner *owner, void *user)
{
    quic_worker_begin();
    struct quic_connection *c =
        quic_connection_new(connecting->settings,
                            connecting->secrets == NULL ? random_secrets() : connecting->secrets,
                            false, connecting->version == 0 ? QUIC_VERSION_1 : connecting->version);

    c->tls_options = connecting->options;
    c->was_negotiated = connecting->was_negotiated;
    if (!quic_client_begin(c, connecting)) {
        int error = errno;

        quic_connection_free(c);
        errno = error;
        return NULL;
    }
    quic_adopt(c, owner, user);
    quic_shake_hands(c);
    quic_wake(c);
    return c;
}
