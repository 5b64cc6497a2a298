/* grpc_backend: a gRPC server on cleartext HTTP/2 (RFC 9113), one process, for benchmarks: every
 * call is answered with the message that came, whatever its method: an echo. It reads no header,
 * because nothing depends on one, and so needs no HPACK; its own are literals (RFC 7541, section
 * 6.2.2). Messages are small; it opens the connection's window again as it is used. */
#define _GNU_SOURCE
#include <errno.h>
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
    PREFACE = 24,         /* bytes that a client says first */
    HEAD = 9,             /* bytes in front of each frame's payload */
    FRAME_MAX = 16384,    /* longest payload, as nobody was told otherwise */
    INPUT = 64 * 1024,    /* several frames */
    OUTPUT = 256 * 1024,  /* answers that wait for room; a client that lets more wait is cut off */
    CALLS = 256,          /* streams at a time, a power of two: see call_of */
    MESSAGE_MAX = 4096,   /* of a call, with gRPC's five bytes in front */
    WINDOW_STEP = 1 << 20 /* the connection's window is opened by so many bytes at a time */
};

enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS, PING = 6, GOAWAY, WINDOW_UPDATE };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8 };

struct call {
    size_t size; /* bytes of the message so far */
    uint8_t message[MESSAGE_MAX];
};

struct client {
    int fd;
    bool wants_room;  /* epoll watches for room to send */
    bool has_preface; /* it was read */
    uint32_t taken;   /* bytes of DATA since the window was opened last */
    size_t in_end;    /* bytes of `in` that are filled */
    size_t out_at;    /* bytes of `out` that were sent */
    size_t out_end;   /* bytes of `out` that are filled */
    uint8_t in[INPUT];
    uint8_t out[OUTPUT];
    struct call calls[CALLS];
};

/* SETTINGS: MAX_CONCURRENT_STREAMS 128; and room for WINDOW_STEP bytes more on the connection. */
static const uint8_t greeting[] = {0, 0, 6, SETTINGS,      0, 0, 0, 0, 0, 0, 3,    0, 0, 0, 128,
                                   0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0x10, 0, 0};
/* ":status: 200" is entry 8 of the static table, "content-type" the name of entry 31. */
static const uint8_t head_block[] = "\x88\x0f\x10\x10"
                                    "application/grpc";
static const uint8_t tail_block[] = "\x00\x0b"
                                    "grpc-status"
                                    "\x01"
                                    "0";

static unsigned long connections; /* accepted */
static unsigned long requests;    /* answered */

static void client_close(struct client *client)
{
    close(client->fd);
    free(client);
}

static void client_watch(struct client *client, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (client->wants_room ? EPOLLOUT : 0),
                                .data.ptr = client};

    if (epoll_ctl(service_epoll, operation, client->fd, &event) == -1)
        abort();
}

/* Appends bytes to what is to be sent. False: too much waits. */
static bool client_put(struct client *client, const void *data, size_t size)
{
    if (size > OUTPUT - client->out_end)
        return false;
    memcpy(client->out + client->out_end, data, size);
    client->out_end += size;
    return true;
}

static bool client_put_frame(struct client *client, int type, int flags, uint32_t stream,
                             const void *payload, size_t size)
{
    uint8_t head[HEAD] = {(uint8_t) (size >> 16), (uint8_t) (size >> 8), (uint8_t) size,
                          (uint8_t) type, (uint8_t) flags};

    stream = htonl(stream);
    memcpy(head + 5, &stream, sizeof stream);
    return client_put(client, head, sizeof head) &&
           (size == 0 || client_put(client, payload, size));
}

static void client_new(int fd)
{
    struct client *client = calloc(1, sizeof *client);
    int on = 1;

    if (client == NULL)
        abort();
    client->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    client_put(client, greeting, sizeof greeting); /* leaves with the first answer */
    client_watch(client, EPOLL_CTL_ADD);
    connections++;
}

/* Sends what waits, as far as there is room. False: the connection is over. */
static bool client_send(struct client *client)
{
    ssize_t n = send(client->fd, client->out + client->out_at, client->out_end - client->out_at,
                     MSG_NOSIGNAL);
    bool waits;

    if (n == -1 && errno != EAGAIN)
        return false;
    if (n > 0)
        client->out_at += (size_t) n;
    waits = client->out_at < client->out_end;
    if (!waits)
        client->out_at = client->out_end = 0;
    if (waits != client->wants_room) {
        client->wants_room = waits;
        client_watch(client, EPOLL_CTL_MOD);
    }
    return true;
}

/* Streams of a client have odd numbers, and few are open at a time: each has a place of its own as
 * long as the oldest open one is not more than CALLS behind the newest. */
static struct call *call_of(struct client *client, uint32_t stream)
{
    return &client->calls[stream / 2 % CALLS];
}

static bool call_answer(struct client *client, uint32_t stream)
{
    struct call *call = call_of(client, stream);

    requests++;
    return client_put_frame(client, HEADERS, END_HEADERS, stream, head_block,
                            sizeof head_block - 1) &&
           client_put_frame(client, DATA, 0, stream, call->message, call->size) &&
           client_put_frame(client, HEADERS, END_HEADERS | END_STREAM, stream, tail_block,
                            sizeof tail_block - 1);
}

/* A part of a message. */
static bool data_taken(struct client *client, uint32_t stream, const uint8_t *data, size_t size)
{
    static const uint8_t step[4] = {0, WINDOW_STEP >> 16, 0, 0};
    struct call *call = call_of(client, stream);

    if (size > MESSAGE_MAX - call->size)
        return false;
    memcpy(call->message + call->size, data, size);
    call->size += size;
    client->taken += (uint32_t) size;
    if (client->taken < WINDOW_STEP)
        return true;
    client->taken -= WINDOW_STEP;
    return client_put_frame(client, WINDOW_UPDATE, 0, 0, step, sizeof step);
}

/* One whole frame. False: nothing that we can serve. */
static bool frame_taken(struct client *client, const uint8_t *head, size_t size)
{
    const uint8_t *payload = head + HEAD;
    int type = head[3], flags = head[4];
    uint32_t stream;

    memcpy(&stream, head + 5, sizeof stream);
    stream = ntohl(stream) & 0x7fffffff;
    switch (type) {
    case SETTINGS:
        return (flags & ACK) != 0 || client_put_frame(client, SETTINGS, ACK, 0, NULL, 0);
    case PING:
        return (flags & ACK) != 0 || client_put_frame(client, PING, ACK, 0, payload, size);
    case HEADERS:
        if ((flags & END_HEADERS) == 0)
            return false;
        call_of(client, stream)->size = 0;
        break;
    case DATA:
        if ((flags & PADDED) != 0 || !data_taken(client, stream, payload, size))
            return false;
        break;
    default:
        return true;
    }
    return (flags & END_STREAM) == 0 || call_answer(client, stream);
}

/* Takes whole frames from the input. False: the connection is over. */
static bool client_take(struct client *client)
{
    uint8_t *at = client->in, *end = client->in + client->in_end;

    if (!client->has_preface && end - at >= PREFACE) {
        client->has_preface = true;
        at += PREFACE;
    }
    while (client->has_preface && end - at >= HEAD) {
        size_t size = (size_t) at[0] << 16 | (size_t) at[1] << 8 | at[2];

        if (size > FRAME_MAX)
            return false;
        if ((size_t) (end - at) < HEAD + size)
            break;
        if (!frame_taken(client, at, size))
            return false;
        at += HEAD + size;
    }
    client->in_end = (size_t) (end - at);
    memmove(client->in, at, client->in_end);
    return true;
}

static bool client_read(struct client *client)
{
    ssize_t n = recv(client->fd, client->in + client->in_end, INPUT - client->in_end, 0);

    if (n == -1)
        return errno == EAGAIN;
    client->in_end += (size_t) n;
    return n > 0 && client_take(client);
}

static void client_ready(void *connection, uint32_t events)
{
    struct client *client = connection;

    if (((events & ~(uint32_t) EPOLLOUT) != 0 && !client_read(client)) ||
        (client->out_at < client->out_end && !client_send(client)))
        client_close(client);
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

    if (argc != 2) {
        fputs("usage: grpc_backend 127.0.0.1:PORT\n", stderr);
        return 1;
    }
    service_run(&service, argv[1]);
    return 0;
}
