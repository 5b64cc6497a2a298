/*
 * Load of UDP, and the backend that echoes it: clients that each have a socket, some of whom wait
 * for an answer at any time. datagram_load SERVER_PORT BACKEND_PORT CLIENTS WAITING DATAGRAMS
 * BYTES: prints answers, lost ones and microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64
#define BYTES_MOST 2048
#define PATIENCE_MS 500 /* an answer that takes longer is lost */

static struct mmsghdr messages[BATCH];
static struct iovec pieces[BATCH];
static struct sockaddr_in peers[BATCH];
static char room[BATCH][BYTES_MOST];

static long long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void check(int result, const char *what)
{
    if (result == -1) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((unsigned short) port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void watch(int epoll, int fd, unsigned number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static int backend_open(int port)
{
    struct sockaddr_in name = local(port);
    int size = 8 << 20, fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    check(fd, "socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    check(bind(fd, (struct sockaddr *) &name, sizeof(name)), "bind");
    return fd;
}

static void echo(int fd)
{
    int n;

    do {
        for (int i = 0; i < BATCH; i++) {
            pieces[i] = (struct iovec){room[i], BYTES_MOST};
            messages[i].msg_hdr = (struct msghdr){.msg_name = &peers[i],
                                                  .msg_namelen = sizeof(peers[i]),
                                                  .msg_iov = &pieces[i],
                                                  .msg_iovlen = 1};
        }
        n = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++) {
            pieces[i].iov_len = messages[i].msg_len;
        }
        if (n > 0) {
            sendmmsg(fd, messages, (unsigned) n, 0);
        }
    } while (n == BATCH);
}

int main(int argc, char **argv)
{
    static const char bytes[BYTES_MOST];

    if (argc != 7) {
        return 2;
    }
    unsigned clients = (unsigned) atoi(argv[3]), waiting = (unsigned) atoi(argv[4]);
    long wanted = atol(argv[5]), sent = 0, answered = 0, lost = 0;
    size_t size = (size_t) atol(argv[6]);
    struct sockaddr_in server = local(atoi(argv[1]));
    int epoll = epoll_create1(0), *fds = calloc(clients, sizeof(*fds));
    unsigned next = 0;

    int backend = backend_open(atoi(argv[2]));
    watch(epoll, backend, clients);
    for (unsigned i = 0; i < clients; i++) {
        check(fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket");
        check(connect(fds[i], (struct sockaddr *) &server, sizeof(server)), "connect");
        watch(epoll, fds[i], i);
    }
    long long begun = now_us();
    while (answered + lost < wanted) {
        struct epoll_event events[256];

        while (sent - answered - lost < (long) waiting && sent < wanted) {
            send(fds[next], bytes, size, 0);
            next = (next + 1) % clients;
            sent++;
        }
        int n = epoll_wait(epoll, events, 256, PATIENCE_MS);
        if (n == 0) {
            lost = sent - answered;
        }
        for (int i = 0; i < n; i++) {
            if (events[i].data.u32 == clients) {
                echo(backend);
            } else {
                answered += recv(fds[events[i].data.u32], room[0], BYTES_MOST, 0) == (ssize_t) size;
            }
        }
    }
    printf("%ld %ld %lld\n", answered, lost, now_us() - begun);
    return 0;
}
