/* http_backend: a fast HTTP/1.1 origin server on epoll, one process, for benchmarks: every request
 * gets the same answer, on a kept connection or (-c) on one that it closes. `http_backend -h` tells
 * its options. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service.h"

enum {
    INPUT = 16 * 1024,           /* a request head must fit; further ones wait in the kernel */
    BODY_MAX = 64 * 1024 * 1024, /* of -b */
};

struct client {
    struct client *next_free;
    int fd;
    bool wants_room;    /* epoll watches for room to send */
    uint64_t body_left; /* bytes of a request body still to be thrown away */
    unsigned due;       /* answers that are still to be sent, the one under way included */
    size_t sent;        /* bytes of the answer under way */
    size_t in_end;      /* bytes of `in` that are filled */
    char in[INPUT];
};

static bool closes;                 /* -c: after each answer */
static bool waits;                  /* -w: never answers */
static size_t body_size = 13;       /* -b */
static char *answer;                /* head and body, the same for everybody */
static size_t answer_size;          /* its bytes */
static unsigned long connections;   /* accepted */
static unsigned long requests;      /* answered; with -w those that came */
static struct client *free_clients; /* their memory is warm */

static void client_close(struct client *client)
{
    close(client->fd);
    client->next_free = free_clients;
    free_clients = client;
}

static void client_watch(struct client *client, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (client->wants_room ? EPOLLOUT : 0),
                                .data.ptr = client};

    if (epoll_ctl(service_epoll, operation, client->fd, &event) == -1)
        abort();
}

static void client_new(int fd)
{
    struct client *client = free_clients;
    int on = 1;

    if (client != NULL)
        free_clients = client->next_free;
    else if ((client = malloc(sizeof(*client))) == NULL)
        abort();
    client->fd = fd;
    client->wants_room = false;
    client->body_left = 0;
    client->due = 0;
    client->sent = client->in_end = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
               sizeof(on)); /* fails for a unix socket: no matter */
    client_watch(client, EPOLL_CTL_ADD);
    connections++;
}

/* Sends what is due, as far as there is room. False: the connection is over, and the client gone.
 */
static bool client_send(struct client *client)
{
    bool wanted_room = client->wants_room;

    if (waits) {
        requests += client->due;
        client->due = 0;
        return true;
    }
    client->wants_room = false;
    while (client->due > 0) {
        ssize_t n =
            send(client->fd, answer + client->sent, answer_size - client->sent, MSG_NOSIGNAL);
        if (n == -1 && errno != EAGAIN) {
            client_close(client);
            return false;
        }
        if (n > 0)
            client->sent += (size_t) n;
        if (client->sent < answer_size) {
            client->wants_room = true;
            break;
        }
        client->sent = 0;
        client->due--;
        requests++;
        if (closes) {
            client_close(client);
            return false;
        }
    }
    if (client->wants_room != wanted_room)
        client_watch(client, EPOLL_CTL_MOD);
    return true;
}

/* The bytes of the body that follows a head, by its Content-Length. */
static uint64_t body_after(const char *head, const char *end)
{
    static const char name[] = "\ncontent-length:";

    for (; (size_t) (end - head) > sizeof(name); head++)
        if (*head == '\n' && strncasecmp(head, name, sizeof(name) - 1) == 0)
            return strtoull(head + sizeof(name) - 1, NULL, 10);
    return 0;
}

/* Takes whole requests from the input. False: something that is none. */
static bool client_take(struct client *client)
{
    char *at = client->in, *end = client->in + client->in_end;

    for (;;) {
        size_t skip = (size_t) (end - at);

        if (skip > client->body_left)
            skip = (size_t) client->body_left;
        at += skip;
        client->body_left -= skip;
        if (client->body_left > 0)
            break;
        if (skip > 0)
            client->due++;
        char *blank = memmem(at, (size_t) (end - at), "\r\n\r\n", 4);
        if (blank == NULL)
            break;
        *blank = '\0'; /* an end for strtoull */
        client->body_left = at[0] == 'G' ? 0 : body_after(at, blank);
        at = blank + 4;
        if (client->body_left == 0)
            client->due++;
    }
    client->in_end = (size_t) (end - at);
    memmove(client->in, at, client->in_end);
    return client->in_end < INPUT;
}

static void client_ready(void *connection, uint32_t events)
{
    struct client *client = connection;

    if ((events & EPOLLOUT) != 0 && !client_send(client))
        return;
    if ((events & ~(uint32_t) EPOLLOUT) == 0)
        return;
    ssize_t n = recv(client->fd, client->in + client->in_end, INPUT - client->in_end, MSG_DONTWAIT);
    if (n == -1 && errno == EAGAIN)
        return;
    if (n > 0) {
        client->in_end += (size_t) n;
        if (client_take(client)) {
            client_send(client);
            return;
        }
    }
    client_close(client);
}

static void make_answer(const char *extra)
{
    static const char line[] =
        "The quick brown fox jumps over the lazy dog, and back again: 0123.\n";
    int head =
        asprintf(&answer,
                 "HTTP/1.1 200 OK\r\nServer: backend\r\nContent-Type: text/plain\r\n"
                 "Content-Length: %zu\r\n%s%sConnection: %s\r\n\r\n",
                 body_size, extra, *extra != '\0' ? "\r\n" : "", closes ? "close" : "keep-alive");

    if (head < 0 || (answer = realloc(answer, (size_t) head + body_size)) == NULL)
        abort();
    answer_size = (size_t) head + body_size;
    for (size_t i = 0; i < body_size; i++)
        answer[(size_t) head + i] = line[i % (sizeof(line) - 1)];
}

static const char usage[] = "http_backend [options] 127.0.0.1:PORT\n"
                            "  -b N     bytes of the answer's body (13)\n"
                            "  -c       closes the connection after each answer\n"
                            "  -w       waits for ever: there is no answer\n"
                            "  -H LINE  one more header line of the answer\n"
                            "On USR1 and at its end (TERM) it prints what it counted, as JSON.\n";

static const char *read_options(int argc, char **argv)
{
    const char *extra = "";
    int option;

    while ((option = getopt(argc, argv, "b:cwH:h")) != -1) {
        switch (option) {
        case 'b':
            body_size = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            closes = true;
            break;
        case 'w':
            waits = true;
            break;
        case 'H':
            extra = optarg;
            break;
        default:
            fputs(usage, stderr);
            exit(option != 'h');
        }
    }
    if (optind + 1 != argc || body_size > BODY_MAX) {
        fputs(usage, stderr);
        exit(1);
    }
    make_answer(extra);
    return argv[optind];
}

static void tell_counts(void)
{
    printf("{\"connections\": %lu, \"requests\": %lu}\n", connections, requests);
}

int main(int argc, char **argv)
{
    static const struct service service = {
        .accepted = client_new,
        .ready = client_ready,
        .tell = tell_counts,
    };

    service_run(&service, read_options(argc, argv));
    return 0;
}
