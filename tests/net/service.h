/* A small service for the tests of listeners: counts what it accepts; and clients of it. */
#ifndef TESTS_NET_SERVICE_H
#define TESTS_NET_SERVICE_H

#include "net/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/shards/listener.h"

static int accepted_count;
static struct conn *accepted_last;

/* What was logged, each line with its level in front. */
static char logged[8192];

static inline void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    size_t n = strlen(logged);

    snprintf(logged + n, sizeof(logged) - n, "%.*s|%.*s\n", STR_ARG(log_level_names[level]),
             STR_ARG(line));
}

static struct log_sink memory_sink = {.level = LOG_INFO, .write = keep_line};
static struct log memory_log = {.sinks = &memory_sink, .level = LOG_INFO};

static inline int times_logged(const char *what)
{
    int n = 0;

    for (const char *at = logged; (at = strstr(at, what)) != NULL; at++) {
        n++;
    }
    return n;
}

#define assert_logged(what)                                                                        \
    do {                                                                                           \
        if (times_logged(what) == 0) {                                                             \
            fail_msg("not logged: %s\nbut:\n%s", what, logged);                                    \
        }                                                                                          \
    } while (0)

/* Answers each byte with itself, and rests. */
static inline void service_input(struct conn *conn)
{
    while (conn_fill(conn, 512, 512)) {
    }
    struct str in = conn_input(conn);
    if (in.len != 0) {
        conn_write(conn, in);
        conn_consume(conn, in.len);
        conn_flush(conn);
    }
    if (conn->is_input_closed || conn->is_broken || !conn_park(conn)) {
        conn_close(conn);
    }
}

static inline void service_timed_out(struct conn *conn)
{
    conn_close(conn);
}

static const struct conn_owner service_owner = {.input = service_input,
                                                .timed_out = service_timed_out};

static inline void service_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct conn *conn = conn_new(fd, peer, &service_owner, listener->log);

    assert_non_null(conn);
    conn->listener = listener;
    accepted_count++;
    accepted_last = conn;
    conn_start(conn);
}

static inline void visit_close(struct conn *conn, void *arg)
{
    conn_close(conn);
}

static inline bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has =
        fd != -1 && bind(fd, (struct sockaddr *) &(struct sockaddr_in6){.sin6_family = AF_INET6},
                         sizeof(struct sockaddr_in6)) == 0;

    if (fd != -1) {
        close(fd);
    }
    return has;
}

static inline uint16_t free_port_v4(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *) &name, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &name, &len), 0);
    close(fd);
    return ntohs(name.sin_port);
}

/* A port that was free a moment ago, on every address of both families. */
static inline uint16_t free_port(void)
{
    if (!has_ipv6()) {
        return free_port_v4();
    }
    struct sockaddr_in6 name = {.sin6_family = AF_INET6};
    socklen_t len = sizeof(name);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int off = 0;

    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &name, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &name, &len), 0);
    close(fd);
    return ntohs(name.sin6_port);
}

static inline void listener_init(struct listener *listener, const char *ip, uint16_t port)
{
    memset(listener, 0, sizeof(*listener));
    listener->magic = LISTENER_MAGIC;
    assert_true(addr_parse_ip(str_of(ip), &listener->addr));
    addr_set_port(&listener->addr, port);
    listener->text = str_of(ip);
    listener->options.backlog = -1;
    listener->options.fastopen = -1;
    listener->options.is_ipv6only = true;
    listener->log = &memory_log;
    listener->accepted = service_accepted;
}

/* A client's connection, blocking, connected (as far as the client can tell). */
static inline int client_connect(const struct addr *addr)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, &addr->any, addr->len), 0);
    return fd;
}

/* The peer has closed its side, in order. */
static inline bool client_sees_end(int fd)
{
    char byte;

    await_readable(fd);
    return recv(fd, &byte, 1, 0) == 0;
}

static inline int service_setup(void **state)
{
    accepted_count = 0;
    accepted_last = NULL;
    log_is_starting = false;
    memset(logged, 0, sizeof(logged));
    assert_true(shard_slots_init());
    return loop_setup(state);
}

static inline int service_teardown(void **state)
{
    acceptors_stop();
    shards_close_all(false);
    conn_each(visit_close, NULL);
    return loop_teardown(state);
}

#define SERVICE_TEST(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

#endif
