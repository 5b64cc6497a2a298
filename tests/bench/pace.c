/* pace: opens a connection at each tick of a clock, whatever became of those before, asks once on
 * each, and tells when each began, was connected, and had its answer. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 * 1024, /* bytes taken by one recv */
    EVENTS_MAX = 256,      /* events taken by one epoll_wait */
    STATUS_SIZE = 12,      /* bytes of "HTTP/1.1 200" */
    LAST_SECONDS = 10      /* how long the last ones may take after the last tick */
};

static const char usage_text[] =
    "usage: pace -p PORT -r RATE -t SECONDS [-a ADDR] [-H LINE] [URI]\n"
    "Opens RATE connections a second, makes one request on each, and reads until the server closes it.\n"
    "Prints one line of JSON: \"began\" (ns of CLOCK_MONOTONIC), \"connected\" and \"answered\" (ns after that,\n"
    "-1: not) of each connection, and \"failed\": how many had no whole answer with status 200.\n";

struct connection {
    int fd;
    bool is_sent;             /* the request went out */
    char status[STATUS_SIZE]; /* the first bytes of the answer */
    unsigned status_size;     /* how many of them came */
    uint64_t began;           /* just before connect, in ns */
    int64_t connected_in;     /* ns from `began` until connect was done; -1: never */
    int64_t answered_in;      /* ns from `began` until the end of the answer; -1: never */
};

static struct sockaddr_in server = {.sin_family = AF_INET};
static struct connection *connections;
static size_t begun, ended, wanted;
static int epoll_fd;
static char *request;
static char input[READ_SIZE];

static void die(const char *what)
{
    fprintf(stderr, "pace: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t clock_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* The end of a connection: answered when the server closed it after an answer. */
static void connection_end(struct connection *c, bool is_answered)
{
    if (is_answered && c->status_size == STATUS_SIZE && memcmp(c->status + 8, " 200", 4) == 0)
        c->answered_in = (int64_t) (clock_ns() - c->began);
    close(c->fd);
    c->fd = -1;
    ended++;
}

static void connection_open(struct connection *c)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};

    c->connected_in = c->answered_in = -1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket");
    c->began = clock_ns();
    if (connect(c->fd, (struct sockaddr *) &server, sizeof server) < 0 && errno != EINPROGRESS)
        connection_end(c, false);
    else if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("epoll_ctl");
}

/* The request is short enough for a fresh socket to take it whole. */
static bool connection_send(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;
    size_t length = strlen(request);

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
        return false;
    c->connected_in = (int64_t) (clock_ns() - c->began);
    c->is_sent = true;
    return send(c->fd, request, length, MSG_NOSIGNAL) == (ssize_t) length;
}

/* Reads what is there. False: the connection is at its end, `is_answered` if the server closed it.
 */
static bool connection_read(struct connection *c, bool *is_answered)
{
    ssize_t got;

    while ((got = recv(c->fd, input, sizeof input, 0)) > 0) {
        for (ssize_t i = 0; i < got && c->status_size < STATUS_SIZE; i++)
            c->status[c->status_size++] = input[i];
    }
    *is_answered = got == 0;
    return got < 0 && errno == EAGAIN;
}

static void connection_ready(struct connection *c, uint32_t events)
{
    bool is_answered = false;

    if (!c->is_sent && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 && !connection_send(c))
        connection_end(c, false);
    else if (c->is_sent && !connection_read(c, &is_answered))
        connection_end(c, is_answered);
}

/* Opens what is due by the clock. */
static void tick(int timer)
{
    uint64_t due;

    if (read(timer, &due, sizeof due) != sizeof due)
        return;
    for (; due > 0 && begun < wanted; due--)
        connection_open(&connections[begun++]);
}

static int timer_start(double rate)
{
    uint64_t ns = (uint64_t) (1e9 / rate);
    struct timespec step = {.tv_sec = (time_t) (ns / 1000000000u),
                            .tv_nsec = (long) (ns % 1000000000u)};
    struct itimerspec every = {.it_interval = step, .it_value = step};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event) < 0)
        die("timerfd");
    return timer;
}

/* Returns when all have ended, or the last ones took too long. */
static void run(int timer)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t last = 0;
    int count;

    while (ended < wanted) {
        if (begun == wanted && last == 0)
            last = clock_ns() + LAST_SECONDS * UINT64_C(1000000000);
        if (last != 0 && clock_ns() > last)
            return;
        count = epoll_wait(epoll_fd, events, EVENTS_MAX, 100);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL)
                tick(timer);
            else
                connection_ready(events[i].data.ptr, events[i].events);
        }
    }
}

static void print_times(void)
{
    size_t failed = 0;

    printf("{\"began\":[");
    for (size_t i = 0; i < wanted; i++)
        printf("%s%llu", i > 0 ? "," : "", (unsigned long long) connections[i].began);
    printf("],\"connected\":[");
    for (size_t i = 0; i < wanted; i++)
        printf("%s%lld", i > 0 ? "," : "", (long long) connections[i].connected_in);
    printf("],\"answered\":[");
    for (size_t i = 0; i < wanted; i++) {
        printf("%s%lld", i > 0 ? "," : "", (long long) connections[i].answered_in);
        failed += connections[i].answered_in < 0;
    }
    printf("],\"failed\":%zu}\n", failed);
}

static void usage(void)
{
    fputs(usage_text, stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    const char *line = NULL;
    double rate = 0, seconds = 0;
    int option;

    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while ((option = getopt(argc, argv, "a:p:r:t:H:")) != -1) {
        if (option == 'a' && inet_pton(AF_INET, optarg, &server.sin_addr) == 1)
            continue;
        if (option == 'p')
            server.sin_port = htons((uint16_t) atoi(optarg));
        else if (option == 'r')
            rate = atof(optarg);
        else if (option == 't')
            seconds = atof(optarg);
        else if (option == 'H')
            line = optarg;
        else
            usage();
    }
    if (server.sin_port == 0 || rate < 0.1 || rate > 1e6 || rate * seconds < 1 ||
        rate * seconds > 1e7)
        usage();
    if (asprintf(&request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s\r\n",
                 optind < argc ? argv[optind] : "/", line != NULL ? line : "",
                 line != NULL ? "\r\n" : "") < 0)
        die("asprintf");
    wanted = (size_t) (rate * seconds);
    connections = calloc(wanted, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (connections == NULL || epoll_fd < 0)
        die("calloc, epoll_create1");
    run(timer_start(rate));
    print_times();
    return 0;
}
