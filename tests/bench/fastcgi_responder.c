/* fastcgi_responder: a fast FastCGI application on epoll, for benchmarks and tests: kept
 * connections, many requests on one, TCP or unix socket. `fastcgi_responder -h` tells its options.
 */
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
#include <time.h>
#include <unistd.h>

#include "service.h"

enum {
    BEGIN = 1,
    ABORT,
    END,
    PARAMS,
    STDIN,
    STDOUT,
    STDERR,
    DATA,
    GET_VALUES,
    GET_VALUES_RESULT,
    UNKNOWN_TYPE,
    IDS = 2048,                 /* requests at one time on a connection */
    INPUT = 256 * 1024,         /* of a connection; a record has 65,535 + 255 + 8 bytes at most */
    OUTPUT_PAUSE = 1024 * 1024, /* above it nothing is read from the connection */
};

/* A request under way. */
struct work {
    bool is_used;
    bool keeps;
    bool is_waiting; /* for its due time, or (is_hanging) for an abort */
    bool is_hanging;
    uint64_t due_ms;
    uint32_t size;     /* of the answer's body */
    char query[256];   /* QUERY_STRING, with -s */
    uint32_t received; /* bytes of STDIN */
};

struct client {
    struct client *next_free;
    int fd;
    bool closes; /* when all is sent */
    bool wants_room;
    unsigned running;
    size_t in_end;
    char in[INPUT];
    char *out;
    size_t out_start, out_end, out_size;
    struct work works[IDS];
};

static unsigned long connections, requests, aborts, most_running, open_now, most_open, running_now,
    most_at_once;
static const char *max_conns, *max_reqs, *mpxs;
static bool is_scripted, is_silent, tells_length;
static uint32_t body_size = 13;
static char fixed[70000]; /* what an unscripted request is answered with, id 1 */
static size_t fixed_size;
static struct client *waiting[4096]; /* connections that may have requests with a due time */
static unsigned waiting_count;
static struct client *free_clients; /* their memory is warm */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static char *header(char *at, int type, unsigned id, unsigned content)
{
    at[0] = 1;
    at[1] = (char) type;
    at[2] = (char) (id >> 8);
    at[3] = (char) id;
    at[4] = (char) (content >> 8);
    at[5] = (char) content;
    at[6] = at[7] = 0;
    return at + 8;
}

static char *room(struct client *client, size_t size)
{
    if (client->out_size - client->out_end < size) {
        size_t wanted = client->out_end + size;

        client->out_size = client->out_size == 0 ? 16384 : client->out_size;
        while (client->out_size < wanted)
            client->out_size *= 2;
        client->out = realloc(client->out, client->out_size);
        if (client->out == NULL)
            abort();
    }
    return client->out + client->out_end;
}

static void put_end(struct client *client, unsigned id, int status)
{
    char *at = header(room(client, 16), END, id, 8);

    memset(at, 0, 8);
    at[4] = (char) status;
    client->out_end += 16;
}

static void put_stdout(struct client *client, unsigned id, const char *bytes, size_t size)
{
    while (size != 0) {
        size_t n = size < 32768 ? size : 32768;
        char *at = header(room(client, 8 + n), STDOUT, id, (unsigned) n);

        memcpy(at, bytes, n);
        client->out_end += 8 + n;
        bytes += n;
        size -= n;
    }
}

/* ---- answers ---- */

static void finish(struct client *client, unsigned id)
{
    struct work *work = &client->works[id];

    work->is_used = false;
    client->running--;
    running_now--;
    if (!work->keeps)
        client->closes = true;
}

static void answer_scripted(struct client *client, unsigned id)
{
    static const char filler[32768];
    struct work *work = &client->works[id];
    char head[512];
    int n = snprintf(head, sizeof(head), "Content-Type: text/plain\r\nX-Running: %u\r\n\r\n%s %u\n",
                     client->running, work->query, work->received);

    put_stdout(client, id, head, (size_t) n);
    for (uint32_t left = work->size; left != 0;) {
        uint32_t part = left < sizeof(filler) ? left : (uint32_t) sizeof(filler);
        put_stdout(client, id, filler, part);
        left -= part;
    }
    header(room(client, 8), STDOUT, id, 0);
    client->out_end += 8;
    put_end(client, id, 0);
    finish(client, id);
}

static void make_fixed(void)
{
    char *at = fixed + 8;

    at += sprintf(at, "Content-Type: text/plain\r\n");
    if (tells_length)
        at += sprintf(at, "Content-Length: %u\r\n", body_size);
    at += sprintf(at, "\r\n");
    memset(at, 'x', body_size);
    if (body_size == 13)
        memcpy(at, "Hello, world\n", 13);
    at += body_size;
    header(fixed, STDOUT, 1, (unsigned) (at - fixed - 8));
    at = header(at, END, 1, 8);
    memset(at, 0, 8);
    fixed_size = (size_t) (at + 8 - fixed);
}

static void answer_fixed(struct client *client, unsigned id)
{
    char *at = room(client, fixed_size);

    memcpy(at, fixed, fixed_size);
    if (id != 1) {
        char *end = at + fixed_size - 16;
        at[2] = end[2] = (char) (id >> 8);
        at[3] = end[3] = (char) id;
    }
    client->out_end += fixed_size;
    finish(client, id);
}

static unsigned long option(const struct work *work, const char *name)
{
    const char *at = strstr(work->query, name);

    return at == NULL ? 0 : strtoul(at + strlen(name), NULL, 10);
}

static void answer(struct client *client, unsigned id)
{
    struct work *work = &client->works[id];

    requests++;
    if (!is_scripted) {
        answer_fixed(client, id);
        return;
    }
    work->size = (uint32_t) option(work, "size=");
    work->is_hanging = strstr(work->query, "hang") != NULL;
    unsigned long delay = option(work, "delay=");
    if (!work->is_hanging && delay == 0) {
        answer_scripted(client, id);
        return;
    }
    work->is_waiting = true;
    work->due_ms = now_ms() + delay;
    for (unsigned i = 0; i < waiting_count; i++)
        if (waiting[i] == client)
            return;
    if (waiting_count < sizeof(waiting) / sizeof(waiting[0]))
        waiting[waiting_count++] = client;
}

/* ---- records ---- */

static size_t pair_length(const unsigned char **at, const unsigned char *end)
{
    if (*at == end)
        return SIZE_MAX;
    if (**at < 128)
        return *(*at)++;
    if (end - *at < 4)
        return SIZE_MAX;
    *at += 4;
    return (size_t) ((*at)[-4] & 0x7f) << 24 | (size_t) (*at)[-3] << 16 | (size_t) (*at)[-2] << 8 |
           (*at)[-1];
}

/* Looks for QUERY_STRING in one PARAMS record. */
static void read_params(struct work *work, const char *content, size_t size)
{
    const unsigned char *at = (const unsigned char *) content, *end = at + size;

    while (at < end) {
        size_t name = pair_length(&at, end), value = pair_length(&at, end);

        if (name > (size_t) (end - at) || value > (size_t) (end - at) - name)
            return;
        if (name == 12 && memcmp(at, "QUERY_STRING", 12) == 0 && value < sizeof(work->query)) {
            memcpy(work->query, at + name, value);
            work->query[value] = 0;
        }
        at += name + value;
    }
}

static char *put_value(char *at, const char *name, const char *value)
{
    size_t name_length = strlen(name);

    if (value == NULL)
        return at;
    *at++ = (char) name_length;
    *at++ = (char) strlen(value);
    memcpy(at, name, name_length);
    memcpy(at + name_length, value, strlen(value));
    return at + name_length + strlen(value);
}

static void tell_values(struct client *client)
{
    char *start = room(client, 256), *at = start + 8;

    at = put_value(at, "FCGI_MAX_CONNS", max_conns);
    at = put_value(at, "FCGI_MAX_REQS", max_reqs);
    at = put_value(at, "FCGI_MPXS_CONNS", mpxs);
    header(start, GET_VALUES_RESULT, 0, (unsigned) (at - start - 8));
    client->out_end += (size_t) (at - start);
}

static bool begin(struct client *client, unsigned id, const char *content)
{
    if (id == 0 || id >= IDS || client->works[id].is_used)
        return false;
    if (client->running != 0 && (mpxs == NULL || strcmp(mpxs, "1") != 0)) {
        put_end(client, id, 1); /* FCGI_CANT_MPX_CONN */
        return true;
    }
    struct work *work = &client->works[id];
    work->is_used = true;
    work->is_waiting = work->is_hanging = false;
    work->keeps = (content[2] & 1) != 0;
    work->received = 0;
    work->query[0] = 0;
    client->running++;
    if (++running_now > most_at_once)
        most_at_once = running_now;
    if (client->running > most_running)
        most_running = client->running;
    return true;
}

/* One record. False: the connection is to be closed. */
static bool take(struct client *client, int type, unsigned id, const char *content, size_t size)
{
    struct work *work = id < IDS ? &client->works[id] : NULL;

    switch (type) {
    case GET_VALUES:
        if (!is_silent)
            tell_values(client);
        return true;
    case BEGIN:
        return size >= 8 && begin(client, id, content);
    case PARAMS:
        if (is_scripted && work != NULL && work->is_used)
            read_params(work, content, size);
        return true;
    case STDIN:
        if (work == NULL || !work->is_used)
            return true; /* of a request that was refused or aborted */
        work->received += (uint32_t) size;
        if (size == 0)
            answer(client, id);
        return true;
    case ABORT:
        aborts++;
        if (work != NULL && work->is_used) {
            put_end(client, id, 0);
            finish(client, id);
        }
        return true;
    default:
        return false;
    }
}

/* ---- connections ---- */

static void client_close(struct client *client)
{
    for (unsigned i = 0; i < waiting_count; i++)
        if (waiting[i] == client)
            waiting[i] = waiting[--waiting_count];
    running_now -= client->running;
    close(client->fd);
    client->next_free = free_clients;
    free_clients = client;
    open_now--;
}

static struct client *client_new(int fd)
{
    struct client *client = free_clients;

    if (client == NULL) {
        client = calloc(1, sizeof(*client));
        if (client == NULL)
            abort();
    } else {
        free_clients = client->next_free;
        for (unsigned id = 0; client->running != 0 && id < IDS; id++)
            client->works[id].is_used = false;
    }
    client->fd = fd;
    client->running = 0;
    client->closes = client->wants_room = false;
    client->in_end = client->out_start = client->out_end = 0;
    return client;
}

/* False: it is gone. */
static bool client_flush(struct client *client)
{
    while (client->out_start < client->out_end) {
        ssize_t n = send(client->fd, client->out + client->out_start,
                         client->out_end - client->out_start, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client};
            if (!client->wants_room)
                epoll_ctl(service_epoll, EPOLL_CTL_MOD, client->fd, &event);
            client->wants_room = true;
            return true;
        }
        if (n < 0) {
            client_close(client);
            return false;
        }
        client->out_start += (size_t) n;
    }
    client->out_start = client->out_end = 0;
    if (client->closes && client->running == 0) {
        client_close(client);
        return false;
    }
    return true;
}

static bool client_take_records(struct client *client)
{
    size_t at = 0;

    while (client->in_end - at >= 8) {
        const unsigned char *in = (const unsigned char *) client->in + at;
        size_t content = (size_t) (in[4] << 8 | in[5]), whole = 8 + content + in[6];

        if (client->in_end - at < whole)
            break;
        if (in[0] != 1 ||
            !take(client, in[1], (unsigned) (in[2] << 8 | in[3]), (const char *) in + 8, content))
            return false;
        at += whole;
    }
    memmove(client->in, client->in + at, client->in_end - at);
    client->in_end -= at;
    return true;
}

static void client_ready(void *connection, uint32_t events)
{
    struct client *client = connection;

    for (;;) {
        if (client->out_end - client->out_start > OUTPUT_PAUSE) {
            size_t before = client->out_end - client->out_start;
            if (!client_flush(client) || client->out_end - client->out_start >= before)
                return;
            continue;
        }
        size_t space = INPUT - client->in_end;
        ssize_t n = recv(client->fd, client->in + client->in_end, space, 0);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            client_close(client);
            return;
        }
        client->in_end += (size_t) n;
        if (!client_take_records(client)) {
            client_close(client);
            return;
        }
        if ((size_t) n < space)
            break;
    }
    client_flush(client);
}

static void client_accepted(int fd)
{
    struct client *client = client_new(fd);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = client};
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    epoll_ctl(service_epoll, EPOLL_CTL_ADD, fd, &event);
    connections++;
    if (++open_now > most_open)
        most_open = open_now;
}

/* Answers what is due; gives the time to sleep, -1 = no limit. */
static int run_due(void)
{
    uint64_t now = now_ms(), next = UINT64_MAX;

    for (unsigned i = waiting_count; i-- > 0;) {
        struct client *client = waiting[i];
        bool has_answered = false;

        for (unsigned id = 1; id < IDS; id++) {
            struct work *work = &client->works[id];
            if (!work->is_used || !work->is_waiting || work->is_hanging)
                continue;
            if (work->due_ms <= now) {
                answer_scripted(client, id);
                has_answered = true;
            } else if (work->due_ms < next) {
                next = work->due_ms;
            }
        }
        if (has_answered)
            client_flush(client);
    }
    return next == UINT64_MAX ? -1 : (int) (next - now);
}

static void tell_counts(void)
{
    printf(
        "{\"connections\": %lu, \"open\": %lu, \"requests\": %lu, \"aborts\": %lu, \"most_running\": %lu, "
        "\"most_open\": %lu, \"most_at_once\": %lu}\n",
        connections, open_now, requests, aborts, most_running, most_open, most_at_once);
}

static const char usage[] =
    "fastcgi_responder [options] 127.0.0.1:PORT | unix:PATH\n"
    "  -c N  FCGI_MAX_CONNS   -r N  FCGI_MAX_REQS   -m 0|1  FCGI_MPXS_CONNS; left out = not told\n"
    "  -q    says nothing when it is asked for values\n"
    "  -b N  bytes of the answer's body (13)   -l  with Content-Length\n"
    "  -s    QUERY_STRING says what to do: size=BYTES, delay=MS, hang\n"
    "On USR1 and at its end (TERM) it prints what it counted, as JSON.\n";

static void read_options(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "c:r:m:qb:lsh")) != -1) {
        switch (c) {
        case 'c':
            max_conns = optarg;
            break;
        case 'r':
            max_reqs = optarg;
            break;
        case 'm':
            mpxs = optarg;
            break;
        case 'q':
            is_silent = true;
            break;
        case 'b':
            body_size = (uint32_t) atoi(optarg);
            break;
        case 'l':
            tells_length = true;
            break;
        case 's':
            is_scripted = true;
            break;
        default:
            fputs(usage, stderr);
            exit(c != 'h');
        }
    }
    if (optind + 1 != argc || body_size > 60000) {
        fputs(usage, stderr);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct service service = {
        .accepted = client_accepted,
        .ready = client_ready,
        .due = run_due,
        .tell = tell_counts,
    };

    read_options(argc, argv);
    make_fixed();
    service_run(&service, argv[optind]);
    return 0;
}
