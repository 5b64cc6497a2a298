/* A path between client and server that loses, doubles and reorders datagrams, and may change its
 * address as a NAT does. */
#ifndef TESTS_NET_QUIC_RELAY_H
#define TESTS_NET_QUIC_RELAY_H

#include "net/quic/quic_ends.h"

struct relay {
    struct event_source to_client; /* bound: what the client believes to be the server */
    struct event_source to_server; /* connected to the server */
    struct addr addr, client, server;
    uint64_t random;
    unsigned lose_of_1000, double_of_1000, reorder_of_1000;
    char kept[2][2048]; /* one datagram for each way that waits for the next */
    ssize_t kept_size[2];
    ssize_t largest; /* bytes of a datagram that passes; 0 = any */
    unsigned passed, lost;
};

static struct relay relay;

static bool relay_chance(unsigned of_1000)
{
    relay.random = relay.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (relay.random >> 33) % 1000 < of_1000;
}

static void relay_put(bool is_to_server, const char *bytes, ssize_t size)
{
    if (is_to_server) {
        send(relay.to_server.fd, bytes, (size_t) size, MSG_DONTWAIT);
    } else {
        sendto(relay.to_client.fd, bytes, (size_t) size, MSG_DONTWAIT, &relay.client.any,
               relay.client.len);
    }
    relay.passed++;
}

static void relay_pass(bool is_to_server, const char *bytes, ssize_t size)
{
    if (relay_chance(relay.lose_of_1000) || (relay.largest != 0 && size > relay.largest)) {
        relay.lost++;
        return;
    }
    if (relay.kept_size[is_to_server] == 0 && relay_chance(relay.reorder_of_1000)) {
        memcpy(relay.kept[is_to_server], bytes, (size_t) size);
        relay.kept_size[is_to_server] = size;
        return;
    }
    relay_put(is_to_server, bytes, size);
    if (relay_chance(relay.double_of_1000)) {
        relay_put(is_to_server, bytes, size);
    }
    if (relay.kept_size[is_to_server] != 0) {
        relay_put(is_to_server, relay.kept[is_to_server], relay.kept_size[is_to_server]);
        relay.kept_size[is_to_server] = 0;
    }
}

static void from_client(struct event_source *source, unsigned events)
{
    char bytes[2048];
    ssize_t n;
    socklen_t len = sizeof(relay.client.un);

    while ((n = recvfrom(source->fd, bytes, sizeof(bytes), MSG_DONTWAIT, &relay.client.any, &len)) >
           0) {
        relay.client.len = len;
        relay_pass(true, bytes, n);
    }
}

static void from_server(struct event_source *source, unsigned events)
{
    char bytes[2048];
    ssize_t n;

    while ((n = recv(source->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        relay_pass(false, bytes, n);
    }
}

static void relay_open_upstream(void)
{
    event_source_init(&relay.to_server,
                      socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), from_server);
    assert_int_equal(connect(relay.to_server.fd, &relay.server.any, relay.server.len), 0);
    assert_true(event_add_listener(&relay.to_server, false));
}

/* The client is at another IP address from now on. */
static inline void relay_move(const char *ip)
{
    struct addr local;

    event_forget(&relay.to_server);
    close(relay.to_server.fd);
    event_source_init(&relay.to_server,
                      socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), from_server);
    assert_true(addr_parse_ip(str_of(ip), &local));
    assert_int_equal(bind(relay.to_server.fd, &local.any, local.len), 0);
    assert_int_equal(connect(relay.to_server.fd, &relay.server.any, relay.server.len), 0);
    assert_true(event_add_listener(&relay.to_server, false));
}

/* The address from which the server hears the client is another one from now on. */
static void relay_rebind(void)
{
    event_forget(&relay.to_server);
    close(relay.to_server.fd);
    relay_open_upstream();
}

static void relay_open(void)
{
    socklen_t len = sizeof(relay.addr.un);

    memset(&relay, 0, sizeof(relay));
    relay.random = 12345;
    relay.server = quic_listener.addr;
    event_source_init(&relay.to_client,
                      socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), from_client);
    assert_true(addr_parse_ip(STR("127.0.0.1"), &relay.addr));
    assert_int_equal(bind(relay.to_client.fd, &relay.addr.any, relay.addr.len), 0);
    assert_int_equal(getsockname(relay.to_client.fd, &relay.addr.any, &len), 0);
    assert_true(event_add_listener(&relay.to_client, false));
    relay_open_upstream();
}

static void relay_close(void)
{
    event_forget(&relay.to_client);
    event_forget(&relay.to_server);
    close(relay.to_client.fd);
    close(relay.to_server.fd);
}

#endif
