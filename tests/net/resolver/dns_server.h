/* A name server on the loopback, in the same process and loop as those who ask it. */
#ifndef TESTS_NET_DNS_SERVER_H
#define TESTS_NET_DNS_SERVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>

#include "base/buf.h"
#include "net/pair.h"
#include "net/resolver/dns_message.h"

enum { SEEN_MAX = 64 };

/* What was asked. */
struct seen {
    char name[256]; /* as on the wire */
    unsigned type;
    unsigned id;
    uint16_t port; /* of the asker */
    bool is_tcp;
};

/* A server; answer decides what each question gets. */
struct dns_server {
    struct event_source udp;
    struct event_source listening;
    struct event_source client; /* one TCP connection at a time */
    struct addr addr;
    struct seen seen[SEEN_MAX]; /* the first ones */
    unsigned asked;             /* questions so far, over TCP too */
    unsigned asked_over_tcp;
    struct sockaddr_in asker; /* of the last datagram */
    /* Writes the records behind the header and the question that are in reply already; false: says
     * nothing. */
    bool (*answer)(struct dns_server *server, const struct seen *seen, struct message *reply);
};

static struct message dns_reply; /* one at a time */

static inline void seen_read(struct seen *seen, const unsigned char *bytes, size_t size)
{
    size_t at = 12;
    size_t used = 0;

    seen->id = (unsigned) (bytes[0] << 8 | bytes[1]);
    assert_int_equal(bytes[4] << 8 | bytes[5], 1);
    while (bytes[at] != 0) {
        if (used != 0) {
            seen->name[used++] = '.';
        }
        memcpy(seen->name + used, bytes + at + 1, bytes[at]);
        used += bytes[at];
        at += bytes[at] + 1u;
        assert_true(at < size);
    }
    seen->name[used] = '\0';
    assert_int_equal(size, at + 5);
    seen->type = (unsigned) (bytes[at + 1] << 8 | bytes[at + 2]);
}

/* A reply to the question in seen: header and question. */
static inline void reply_begin(struct message *reply, const struct seen *seen)
{
    reply->size = 0;
    put_header(reply, seen->id, REPLY, 1, 0, 0);
    put_question(reply, seen->name, seen->type);
}

static inline bool dns_server_answers(struct dns_server *server, struct seen *seen,
                                      const unsigned char *bytes, size_t size)
{
    seen_read(seen, bytes, size);
    if (server->asked < SEEN_MAX) {
        server->seen[server->asked] = *seen;
    }
    server->asked++;
    reply_begin(&dns_reply, seen);
    return server->answer(server, seen, &dns_reply);
}

/* Says it to the last asker. */
static inline void dns_server_send(struct dns_server *server, const struct message *reply)
{
    assert_int_equal(sendto(server->udp.fd, reply->bytes, reply->size, 0,
                            (struct sockaddr *) &server->asker, sizeof(server->asker)),
                     reply->size);
}

static inline void dns_server_udp(struct event_source *source, unsigned events)
{
    struct dns_server *server = container_of(source, struct dns_server, udp);
    unsigned char bytes[1024];
    ssize_t size;
    socklen_t length = sizeof(server->asker);

    while ((size = recvfrom(source->fd, bytes, sizeof(bytes), 0, (struct sockaddr *) &server->asker,
                            &length)) > 0) {
        struct seen seen = {.port = ntohs(server->asker.sin_port)};

        if (dns_server_answers(server, &seen, bytes, (size_t) size)) {
            dns_server_send(server, &dns_reply);
        }
    }
}

static inline void dns_server_hang_up(struct dns_server *server)
{
    if (server->client.fd != -1) {
        event_forget(&server->client);
        close(server->client.fd);
        server->client.fd = -1;
    }
}

/* The whole question comes at once on the loopback. */
static inline void dns_server_tcp(struct event_source *source, unsigned events)
{
    struct dns_server *server = container_of(source, struct dns_server, client);
    unsigned char bytes[1024];
    ssize_t size = recv(source->fd, bytes, sizeof(bytes), 0);

    if (size <= 0) {
        if (size == 0) {
            dns_server_hang_up(server);
        }
        return;
    }
    struct seen seen = {.is_tcp = true};
    assert_int_equal(size, 2 + (bytes[0] << 8 | bytes[1]));
    server->asked_over_tcp++;
    if (!dns_server_answers(server, &seen, bytes + 2, (size_t) size - 2)) {
        dns_server_hang_up(server);
        return;
    }
    unsigned char length[2] = {(unsigned char) (dns_reply.size >> 8),
                               (unsigned char) dns_reply.size};
    /* In three pieces, the first of one byte. */
    assert_int_equal(send(source->fd, length, 1, 0), 1);
    assert_int_equal(send(source->fd, length + 1, 1, 0), 1);
    assert_int_equal(send(source->fd, dns_reply.bytes, dns_reply.size, 0), dns_reply.size);
}

static inline void dns_server_accept(struct event_source *source, unsigned events)
{
    struct dns_server *server = container_of(source, struct dns_server, listening);
    int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd != -1) {
        dns_server_hang_up(server);
        event_source_init(&server->client, fd, dns_server_tcp);
        assert_true(event_add_input(&server->client));
    }
}

/* UDP and TCP on one port of 127.0.0.1. */
static inline void dns_server_open(struct dns_server *server,
                                   bool (*answer)(struct dns_server *, const struct seen *,
                                                  struct message *))
{
    struct sockaddr_in name;
    socklen_t length = sizeof(name);
    int udp, tcp, tries = 0;

    memset(server, 0, sizeof(*server));
    for (;;) {
        name =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(udp, (struct sockaddr *) &name, length), 0);
        assert_int_equal(getsockname(udp, (struct sockaddr *) &name, &length), 0);
        if (bind(tcp, (struct sockaddr *) &name, length) == 0) {
            break;
        }
        assert_true(++tries < 100);
        close(udp);
        close(tcp);
    }
    assert_int_equal(listen(tcp, 5), 0);
    server->addr.len = sizeof(server->addr.v4);
    server->addr.v4 = name;
    server->answer = answer;
    event_source_init(&server->udp, udp, dns_server_udp);
    event_source_init(&server->listening, tcp, dns_server_accept);
    server->client.fd = -1;
    assert_true(event_add_input(&server->udp));
    assert_true(event_add_listener(&server->listening, false));
}

static inline void dns_server_close(struct dns_server *server)
{
    dns_server_hang_up(server);
    event_forget(&server->udp);
    close(server->udp.fd);
    event_forget(&server->listening);
    close(server->listening.fd);
}

#endif
