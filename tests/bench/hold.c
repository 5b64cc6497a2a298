/* hold: opens very many kept connections, from as many addresses of 127.0.0.0/8 as their ports
 * take, and does with them what standard input says. */
#define _GNU_SOURCE
#include "response.h"
#include "options.h"
#include "requests.h"

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
#include <time.h>
#include <unistd.h>

enum {
    READ_SIZE = 16 * 1024,   /* bytes taken by one recv */
    EVENTS_MAX = 256,        /* events taken by one epoll_wait */
    OPENING_MAX = 256,       /* connections that are being opened at a time */
    HELD_PER_SOURCE = 10000, /* connections from one address: ports run out */
    STALL_SECONDS = 60       /* without any event for so long: give up what is under way */
};

/* One a line, and the next when the answer to the last has come. The command line is that of the
 * load generator: -i says how many connections, -S how many addresses to leave to others. */
static const char commands_text[] = "ask COUNT, lost";

enum state {
    CLOSED,     /* no socket */
    CONNECTING, /* connect is under way */
    ASKING,     /* a request is out */
    PARKED      /* answered, and kept */
};

struct connection {
    int fd;
    uint8_t state;
    bool has_head;     /* the head of this answer was read */
    uint32_t left;     /* bytes of the body still to come */
    uint64_t asked_at; /* when the request was sent, in ns */
};

static struct connection *connections;
static int epoll_fd;
static unsigned opened, pending, parked, lost, failed; /* pending: opening, or asked */
static unsigned stalled;                               /* asked, and neither answered nor closed */
static unsigned answered;                              /* since the last command */
static uint64_t *waits;                                /* ns of each of them; NULL: not asked for */
static uint64_t lost_at;                               /* when the last one was lost, in ns */
static char input[READ_SIZE];

static void die(const char *what)
{
    fprintf(stderr, "hold: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t clock_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* The server closed it, or it never came to be. */
static void connection_end(struct connection *c)
{
    if (c->state != PARKED)
        pending--;
    if (c->state == PARKED || waits != NULL) {
        parked -= c->state == PARKED;
        lost++;
        lost_at = clock_ns();
    } else {
        failed++;
    }
    close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
}

/* The request is short enough for the socket to take it whole. */
static void connection_ask(struct connection *c)
{
    size_t size;
    const char *request = requests_take(1, &size);

    c->state = ASKING;
    c->has_head = false;
    c->asked_at = clock_ns();
    if (send(c->fd, request, size, MSG_NOSIGNAL) != (ssize_t) size)
        connection_end(c);
}

static void connection_open(struct connection *c)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    int yes = 1;

    source.sin_addr.s_addr = htonl(0x7f000002u + opt.source + opened / HELD_PER_SOURCE);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (bind(c->fd, (struct sockaddr *) &source, sizeof source) < 0)
        die("bind");
    opened++;
    pending++;
    c->state = CONNECTING;
    if (connect(c->fd, (struct sockaddr *) &opt.server, sizeof opt.server) < 0 &&
        errno != EINPROGRESS)
        connection_end(c);
    else if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("epoll_ctl");
}

static void connection_answered(struct connection *c)
{
    if (waits != NULL)
        waits[answered] = clock_ns() - c->asked_at;
    answered++;
    pending--;
    parked++;
    c->state = PARKED;
}

/* One piece of an answer. False: it is none that we understand. */
static bool answer_take(struct connection *c, size_t size)
{
    struct head head;

    if (!c->has_head) {
        if (head_find(input, size, &head) != 1 || head.status != opt.status || head.length < 0 ||
            head.length > UINT32_MAX)
            return false;
        c->has_head = true;
        c->left = (uint32_t) head.length;
        size -= head.size;
    }
    if (size > c->left)
        return false;
    c->left -= (uint32_t) size;
    if (c->left == 0)
        connection_answered(c);
    return true;
}

/* Reads until there is no more. */
static void connection_read(struct connection *c)
{
    ssize_t got;

    for (;;) {
        got = recv(c->fd, input, sizeof input, 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0 || c->state != ASKING || !answer_take(c, (size_t) got)) {
            connection_end(c);
            return;
        }
    }
}

static void connection_ready(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (c->state == CONNECTING) {
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
            connection_end(c);
        else
            connection_ask(c);
    }
    if (c->state == ASKING || c->state == PARKED)
        connection_read(c);
}

/* One turn of the loop. True: standard input has something. */
static bool turn(int timeout_ms, int *count)
{
    struct epoll_event events[EVENTS_MAX];
    bool is_told = false;

    *count = epoll_wait(epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < *count; i++) {
        if (events[i].data.ptr == NULL)
            is_told = true;
        else
            connection_ready(events[i].data.ptr);
    }
    return is_told;
}

/* Turns until at most so many are under way. False: nothing more happens. */
static bool turns_until(unsigned most)
{
    int count;

    while (pending > most) {
        turn(STALL_SECONDS * 1000, &count);
        if (count == 0)
            return false;
    }
    return true;
}

static void open_all(void)
{
    while (opened < opt.hold && turns_until(OPENING_MAX - 1))
        connection_open(&connections[opened]);
    turns_until(0);
}

/* Asks on so many of the connections, evenly spread and one after the other. */
static void ask(unsigned count)
{
    unsigned asked = 0, step = opt.hold / (count > 0 ? count : 1);

    waits = calloc(count + 1, sizeof *waits);
    if (waits == NULL)
        die("calloc");
    answered = 0;
    for (uint64_t i = 0; i < opt.hold && asked<count; i += step> 0 ? step : 1) {
        if (connections[i].state != PARKED)
            continue;
        asked++;
        pending++;
        parked--;
        connection_ask(&connections[i]);
        if (!turns_until(0)) {
            connection_end(&connections[i]);
            lost--;
            stalled++;
        }
    }
    printf("{\"asked\":%u,\"answered\":%u,\"stalled\":%u,\"us\":[", asked, answered, stalled);
    for (unsigned i = 0; i < answered; i++)
        printf("%s%.1f", i > 0 ? "," : "", (double) waits[i] / 1000);
    puts("]}");
    free(waits);
    waits = NULL;
}

/* Sees what was closed until now. */
static void tell_lost(void)
{
    int count = 1;

    while (count > 0)
        turn(0, &count);
    printf("{\"held\":%u,\"lost\":%u,\"lost_at\":%llu}\n", parked, lost,
           (unsigned long long) lost_at);
}

/* Obeys one line. False: it was the end of input. */
static bool obey(void)
{
    char line[64];
    unsigned count;

    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    if (sscanf(line, "ask %u", &count) == 1) {
        ask(count);
    } else if (strcmp(line, "lost\n") == 0) {
        tell_lost();
    } else {
        fprintf(stderr, "hold: commands are: %s\n", commands_text);
        exit(2);
    }
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    uint64_t start = clock_ns();
    int count;

    options_read(argc, argv);
    if (opt.hold == 0 || opt.is_tls) {
        fputs("hold: -i says how many, and there is no TLS\n", stderr);
        return 2;
    }
    connections = calloc(opt.hold, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (connections == NULL || epoll_fd < 0)
        die("calloc, epoll_create1");
    open_all();
    printf("{\"held\":%u,\"failed\":%u,\"seconds\":%.3f}\n", parked, failed,
           (double) (clock_ns() - start) / 1e9);
    fflush(stdout);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0)
        die("standard input");
    do {
        while (!turn(-1, &count))
            continue;
    } while (obey());
    return 0;
}
