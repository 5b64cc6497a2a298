/* accept_client: the load of accept_ways: light short connections one after the other on each of
 * some clients, and heavy requests at a rate of their own, whether the last is answered or not. */

#define _GNU_SOURCE
#include "accept_ways.h"
#include "latency.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 1024, HEAVY_MAX = 256, EVENTS = 64, LATE_US = 30000 };

struct client {
    int fd;
    bool is_heavy, is_sent;
    uint64_t started; /* ns, before connect */
};

static struct client clients[CLIENTS_MAX + HEAVY_MAX];
static int epoll;
static unsigned opened; /* connections so far: the addresses come in turn */
static struct outcome *outcome;

static struct sockaddr_in next_address(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t) plan.port),
                                .sin_addr.s_addr = htonl(0x7f000101 + opened++ % plan.addresses)};
}

static void send_request(struct client *client)
{
    const char *request = client->is_heavy ? "H\r\n\r\n" : "L\r\n\r\n";

    client->is_sent = send(client->fd, request, 5, MSG_NOSIGNAL) == 5;
}

static void open_connection(struct client *client)
{
    struct sockaddr_in address = next_address();
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client};

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    client->started = clock_ns(CLOCK_MONOTONIC);
    if (connect(client->fd, (struct sockaddr *) &address, sizeof(address)) == -1 &&
        errno != EINPROGRESS) {
        perror("connect");
        exit(1);
    }
    send_request(client);
    epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event);
}

static void count_answer(const struct client *client)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), took = now - client->started;
    uint64_t stopped = shared->stopped_at, continued = shared->continued_at;
    double us = (double) took / 1000;

    if (client->is_heavy) {
        outcome->heavy++;
        return;
    }
    outcome->answered++;
    latency_add(took);
    if (us > outcome->longest_us)
        outcome->longest_us = us;
    if (stopped == 0 || client->started < stopped ||
        (continued != 0 && client->started > continued))
        return;
    if (us > outcome->stopped_longest_us)
        outcome->stopped_longest_us = us;
    outcome->stopped_late += us > LATE_US;
}

static void go_on(struct client *client)
{
    char buffer[256];
    ssize_t n;

    if (!client->is_sent)
        send_request(client);
    n = read(client->fd, buffer, sizeof(buffer));
    if (n == -1 && (errno == EAGAIN || errno == ENOTCONN))
        return;
    if (n > 0)
        count_answer(client);
    else
        outcome->failed++;
    close(client->fd);
    client->fd = -1;
    if (!client->is_heavy)
        open_connection(client);
}

static void open_heavy(void)
{
    for (struct client *client = clients + CLIENTS_MAX; client < clients + CLIENTS_MAX + HEAVY_MAX;
         client++)
        if (client->fd == -1) {
            open_connection(client);
            return;
        }
    outcome->failed++;
}

static void load(void)
{
    uint64_t started = clock_ns(CLOCK_MONOTONIC), now = started;
    uint64_t until = started + (uint64_t) (plan.seconds * 1e9), heavy = started;

    for (unsigned i = 0; i < plan.clients; i++)
        open_connection(&clients[i]);
    while (now < until) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, 2);

        for (int i = 0; i < n; i++)
            go_on(events[i].data.ptr);
        now = clock_ns(CLOCK_MONOTONIC);
        for (; plan.heavy_rate > 0 && heavy < now; heavy += (uint64_t) (1e9 / plan.heavy_rate))
            open_heavy();
    }
    outcome->seconds = (double) (now - started) / 1e9;
}

/* Connections that nobody takes: what is paid is the handshake and the walk along who watches. */
static void park(void)
{
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    for (unsigned i = 0; i < plan.parked; i++) {
        struct sockaddr_in address = next_address();
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd == -1 || connect(fd, (struct sockaddr *) &address, sizeof(address)) == -1) {
            perror("connect");
            exit(1);
        }
    }
    outcome->park_ns = (double) (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / plan.parked;
}

void client_run(void)
{
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    outcome = &shared->outcome;
    epoll = epoll_create1(0);
    for (unsigned i = 0; i < CLIENTS_MAX + HEAVY_MAX; i++)
        clients[i] = (struct client){.fd = -1, .is_heavy = i >= CLIENTS_MAX};
    if (plan.parked > 0)
        park();
    else
        load();
    outcome->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    outcome->p50_us = latency_us(0.5);
    outcome->p99_us = latency_us(0.99);
}
