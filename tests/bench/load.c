/* load: an HTTP/1.1 load generator that is cheap per request (one thread, one epoll), over TLS
 * where that is asked for. */

#define _GNU_SOURCE
#include "response.h"
#include "chunks.h"
#include "latency.h"
#include "options.h"
#include "requests.h"
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 * 1024,  /* bytes taken by one recv */
    EVENTS_MAX = 256,       /* events taken by one epoll_wait */
    STALL_SECONDS = 10,     /* without any event for so long: give up */
    OPENING_MAX = 64,       /* hold: connections that are being opened at a time */
    HELD_PER_SOURCE = 10000 /* hold: connections from one address of 127.0.0.0/8 */
};

enum state {
    CLOSED,     /* no socket */
    CONNECTING, /* connect is under way */
    WAITING,    /* requests are out, or on their way out */
    DRAINING,   /* short: answered, and the server is to close */
    PARKED      /* hold: answered, and kept */
};

enum failure {
    FAIL_CONNECT, /* connect failed, or no socket, or no port */
    FAIL_RESET,   /* an error from recv or send */
    FAIL_TLS,     /* an error of TLS: an alert, a bad record */
    FAIL_EARLY,   /* end of stream before the answer was whole */
    FAIL_STATUS,  /* whole, but another status than -x */
    FAIL_SYNTAX,  /* not an answer that we can read */
    FAIL_STALLED, /* still without an answer when we gave up */
    FAIL_LOST,    /* hold: the server closed a parked connection */
    FAIL_KINDS
};

static const char *const failure_names[FAIL_KINDS] = {"connect", "reset",  "tls",     "early_close",
                                                      "status",  "syntax", "stalled", "lost"};

struct connection {
    int fd;
    SSL *tls; /* on top of fd; NULL: plain */
    enum state state;
    bool wants_write;     /* epoll watches for room to send */
    bool server_closes;   /* this answer said "Connection: close" */
    bool is_bad;          /* this answer has another status than -x */
    bool in_body;         /* the head of this answer was read */
    unsigned left;        /* answers that are still to come, this one included */
    const char *out;      /* what is still to be sent, of the request list */
    size_t out_left;      /* its bytes */
    int64_t body_left;    /* bytes of the body still to come, or UNTIL_EOF, or CHUNKED */
    struct chunks chunks; /* CHUNKED: where in the body we are */
    char *partial;        /* a head that is not whole yet; ours, or NULL */
    size_t partial_size;  /* its bytes */
    uint64_t started;     /* when the batch was sent, in ns */
};

static int epoll_fd;
static char input[READ_SIZE];
static uint64_t now;    /* ns, read once for each event */
static uint64_t issued; /* requests handed to connections */
static uint64_t done;   /* answered as expected */
static uint64_t failed; /* requests that were not */
static uint64_t failures[FAIL_KINDS];
static uint64_t body_bytes;
static uint64_t opened; /* connections made */
static unsigned parked; /* hold: connections kept */
static unsigned broken; /* connections that failed and were not opened again yet */

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t clock_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* --- a connection's life --- */

static void connection_close(struct connection *c)
{
    tls_free(c->tls);
    c->tls = NULL;
    close(c->fd);
    free(c->partial);
    c->partial = NULL;
    c->partial_size = 0;
    c->state = CLOSED;
}

/* May more requests be handed out? By time they never end; the main loop stops. */
static bool work_is_left(void)
{
    return opt.requests == 0 || issued < opt.requests;
}

/* One request that was not answered as it should. */
static void request_failed(enum failure kind)
{
    failures[kind]++;
    failed++;
}

/* Closes, blames the answer that was due, and gives the later ones of the batch back. The main
 * loop opens it again at its next turn, so that a server that fails always is not asked in a
 * circle. */
static void connection_fail(struct connection *c, enum failure kind)
{
    if (c->left > 0) {
        request_failed(kind);
        issued -= c->left - 1;
        c->left = 0;
    }
    connection_close(c);
    broken++;
}

static void connection_watch(struct connection *c, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = c};

    if (epoll_ctl(epoll_fd, operation, c->fd, &event) < 0)
        die("epoll_ctl");
}

/* Sends what is left of the batch, after the handshake where that is still to be done; false if the
 * connection failed (and was dealt with). */
static bool connection_send(struct connection *c)
{
    ssize_t sent;
    bool wants_write;

    sent = c->tls != NULL ? tls_send(c->tls, c->out, c->out_left)
                          : send(c->fd, c->out, c->out_left, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        connection_fail(c, errno == EPROTO ? FAIL_TLS : FAIL_RESET);
        return false;
    }
    if (sent > 0) {
        c->out += sent;
        c->out_left -= (size_t) sent;
    }
    wants_write = c->out_left > 0 && (c->tls == NULL || sent > 0 || tls_wants_write(c->tls));
    if (wants_write != c->wants_write) {
        c->wants_write = wants_write;
        connection_watch(c, EPOLL_CTL_MOD, EPOLLIN | (c->wants_write ? EPOLLOUT : 0));
    }
    return true;
}

/* Takes the next batch from the list; the caller sends it. */
static void connection_load(struct connection *c)
{
    unsigned count = opt.depth;

    if (opt.requests > 0 && count > opt.requests - issued)
        count = (unsigned) (opt.requests - issued);
    c->state = WAITING;
    c->left = count;
    c->in_body = false;
    c->out = requests_take(count, &c->out_left);
    issued += count;
    c->started = now;
}

/* Holding takes a further address for every HELD_PER_SOURCE connections: ports run out. */
static void bind_source(int fd)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    int yes = 1;

    source.sin_addr.s_addr =
        htonl(0x7f000002u + opt.source + (uint32_t) (opened / HELD_PER_SOURCE));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *) &source, sizeof source) < 0)
        die("bind");
}

/* Opens a connection and sends its first batch, at once if connect is that fast. */
static void connection_open(struct connection *c)
{
    int yes = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket");
    if (opt.hold > 0)
        bind_source(c->fd);
    if (!opt.is_short || opt.is_tls)
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    opened++;
    c->tls = opt.is_tls ? tls_new(c->fd) : NULL;
    c->wants_write = false;
    c->server_closes = false;
    connection_load(c);
    if (connect(c->fd, (struct sockaddr *) &opt.server, sizeof opt.server) == 0) {
        connection_watch(c, EPOLL_CTL_ADD, EPOLLIN);
        connection_send(c);
    } else if (errno == EINPROGRESS) {
        c->state = CONNECTING;
        c->wants_write = true;
        connection_watch(c, EPOLL_CTL_ADD, EPOLLOUT);
    } else {
        connection_fail(c, FAIL_CONNECT);
    }
}

static void connection_connected(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        connection_fail(c, FAIL_CONNECT);
        return;
    }
    c->state = WAITING;
    connection_send(c); /* all of it, mostly; then it stops to watch for room */
}

/* --- answers --- */

/* One answer is whole. True: the connection stands, and more of this batch is to come. */
static bool answer_done(struct connection *c)
{
    if (c->is_bad) {
        request_failed(FAIL_STATUS);
    } else {
        done++;
        latency_add(now - c->started);
    }
    c->in_body = false;
    c->left--;
    if (c->left > 0 && !c->server_closes)
        return true;
    if (c->left > 0) {
        issued -= c->left; /* announced, so no fault: they are asked again */
        c->left = 0;
    }
    if (opt.hold > 0) {
        c->state = PARKED;
        parked++;
    } else if (c->server_closes) {
        c->state = DRAINING;
    } else if (opt.is_short) {
        connection_close(c);
        if (work_is_left())
            connection_open(c);
    } else if (work_is_left()) {
        connection_load(c);
        connection_send(c);
    } else {
        connection_close(c);
    }
    return false;
}

/* Keeps the beginning of a head until the rest comes. */
static void partial_keep(struct connection *c, const char *data, size_t size)
{
    char *copy = malloc(HEAD_MAX + READ_SIZE);

    if (copy == NULL)
        die("malloc");
    memcpy(copy, data, size);
    free(c->partial);
    c->partial = copy;
    c->partial_size = size;
}

/* Reads what there is of a body; it is whole when body_left is 0. Gives the bytes used, or -1. */
static ptrdiff_t body_read(struct connection *c, const char *data, size_t size)
{
    ptrdiff_t used;

    if (c->body_left == CHUNKED) {
        used = chunks_read(&c->chunks, data, size, &body_bytes);
        if (c->chunks.state == CHUNKS_END)
            c->body_left = 0;
        return used;
    }
    if (c->body_left != UNTIL_EOF && size > (uint64_t) c->body_left)
        size = (size_t) c->body_left;
    body_bytes += size;
    if (c->body_left != UNTIL_EOF)
        c->body_left -= (int64_t) size;
    return (ptrdiff_t) size;
}

/* Reads answers from data. Returns how many bytes were used; fewer than given if a head is not
 * whole, or when the connection came to another state. */
static size_t answers_read(struct connection *c, const char *data, size_t size)
{
    struct head head;
    size_t used = 0;
    ptrdiff_t taken;
    int found;

    while (c->state == WAITING && c->left > 0) {
        if (!c->in_body) {
            found = used < size ? head_find(data + used, size - used, &head) : 0;
            if (found < 0)
                connection_fail(c, FAIL_SYNTAX);
            if (found <= 0)
                return used;
            used += head.size;
            if (head.status < 200)
                continue;
            c->is_bad = head.status != opt.status;
            c->server_closes = head.closes || head.length == UNTIL_EOF;
            c->body_left = head.length;
            c->chunks = (struct chunks){0};
            c->in_body = true;
        }
        taken = body_read(c, data + used, size - used);
        if (taken < 0) {
            connection_fail(c, FAIL_SYNTAX);
            return used;
        }
        used += (size_t) taken;
        if (c->body_left != 0)
            return used;
        if (c->left == 1 && used < size) {
            connection_fail(c, FAIL_SYNTAX); /* more than was asked for */
            return used;
        }
        if (!answer_done(c))
            return used;
    }
    return used;
}

static void input_taken(struct connection *c, size_t size)
{
    const char *data = input;
    size_t used;

    if (c->partial_size > 0) {
        memcpy(c->partial + c->partial_size, input, size);
        data = c->partial;
        size += c->partial_size;
    }
    used = answers_read(c, data, size);
    if (c->state == CLOSED)
        return;
    if (used < size && c->state == WAITING && c->left > 0) {
        partial_keep(c, data + used, size - used);
    } else if (c->partial != NULL) {
        free(c->partial);
        c->partial = NULL;
        c->partial_size = 0;
    }
}

/* The server has closed. */
static void connection_ended(struct connection *c)
{
    if (c->state == PARKED) {
        failures[FAIL_LOST]++;
        connection_close(c);
    } else if (c->state == DRAINING) {
        connection_close(c);
        if (work_is_left())
            connection_open(c);
    } else if (c->in_body && c->body_left == UNTIL_EOF) {
        answer_done(c);
        connection_ended(c);
    } else {
        connection_fail(c, FAIL_EARLY);
    }
}

/* A long body is thrown away in the kernel, without a copy, but for TLS. True: there were bytes. */
static bool connection_read(struct connection *c, bool has_ended)
{
    bool skip = c->tls == NULL && c->in_body && c->body_left > READ_SIZE;
    size_t want = skip ? (size_t) c->body_left : READ_SIZE;
    ssize_t got;

    got = c->tls != NULL ? tls_recv(c->tls, input, want)
                         : recv(c->fd, skip ? NULL : input, want, skip ? MSG_TRUNC : 0);
    if (got < 0) {
        if (errno != EAGAIN)
            connection_fail(c, errno == EPROTO ? FAIL_TLS : FAIL_RESET);
    } else if (got == 0) {
        connection_ended(c);
    } else if (skip) {
        body_bytes += (uint64_t) got;
        c->body_left -= got;
        if (c->body_left == 0)
            answer_done(c);
    } else {
        input_taken(c, (size_t) got);
        /* a short read took all there was, so the end that was told of comes next */
        if (has_ended && c->tls == NULL && c->state == DRAINING && (size_t) got < want)
            connection_ended(c);
    }
    return got > 0;
}

static void event_handle(struct connection *c, uint32_t events)
{
    if (c->state == CLOSED)
        return;
    if (c->state == CONNECTING) {
        connection_connected(c);
        return;
    }
    /* what comes in may be what a handshake waits for */
    if (((events & EPOLLOUT) || (c->tls != NULL && c->out_left > 0)) && !connection_send(c))
        return;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        while (connection_read(c, (events & EPOLLRDHUP) != 0) && c->tls != NULL &&
               tls_has_more(c->tls))
            now = clock_ns();
}

/* --- runs --- */

/* One turn of the loop; false when nothing happened for STALL_SECONDS. */
static bool turn(int timeout_ms)
{
    static uint64_t quiet_since;
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(epoll_fd, events, EVENTS_MAX, timeout_ms);

    if (count < 0 && errno != EINTR)
        die("epoll_wait");
    now = clock_ns();
    if (count > 0 || quiet_since == 0)
        quiet_since = now;
    for (int i = 0; i < count; i++) {
        event_handle(events[i].data.ptr, events[i].events);
        now = clock_ns();
    }
    return now - quiet_since < STALL_SECONDS * UINT64_C(1000000000);
}

/* Is the first connection still to get the session that all the others are to resume? */
static bool lacks_session(void)
{
    return opt.resumes && !tls_has_session();
}

/* Opens what failed, or was never open. */
static void open_all(struct connection *connections)
{
    unsigned count = lacks_session() ? 1 : opt.connections;

    broken = 0;
    for (unsigned i = 0; i < count && work_is_left(); i++)
        if (connections[i].state == CLOSED)
            connection_open(&connections[i]);
}

/* Requests on opt.connections connections, until the number or the time is reached. */
static void run_load(struct connection *connections)
{
    uint64_t end = now + (uint64_t) (opt.seconds * 1e9);
    bool has_stalled = false, is_first_alone = lacks_session();

    open_all(connections);
    while (opt.requests > 0 ? done + failed < opt.requests : now < end) {
        if (!turn(opt.is_busy && broken == 0 ? 0 : 100)) {
            has_stalled = true;
            break;
        }
        if (broken > 0 || (is_first_alone && !lacks_session())) {
            is_first_alone = false;
            open_all(connections);
        }
    }
    for (unsigned i = 0; i < opt.connections && (has_stalled || done == 0); i++)
        if (connections[i].state != CLOSED)
            failures[FAIL_STALLED] += connections[i].left;
}

static void wait_for_end_of_input(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLHUP, .data.ptr = NULL}, seen[EVENTS_MAX];
    char byte;
    int count;

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0)
        return; /* a plain file, /dev/null: nothing to wait for */
    for (;;) {
        count = epoll_wait(epoll_fd, seen, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (seen[i].data.ptr != NULL)
                event_handle(seen[i].data.ptr, seen[i].events);
            else if (read(STDIN_FILENO, &byte, 1) <= 0)
                return;
        }
    }
}

static void run_hold(struct connection *connections)
{
    opt.requests = opt.hold;
    while (parked + failed < opt.hold) {
        while (opened < opt.hold && opened - parked - failed < OPENING_MAX)
            connection_open(&connections[opened]);
        if (!turn(100)) {
            failures[FAIL_STALLED] += opt.hold - parked - failed;
            break;
        }
    }
    printf("{\"held\":%u}\n", parked);
    fflush(stdout);
    wait_for_end_of_input();
}

static void report(double seconds)
{
    struct rusage use;
    uint64_t errors = 0;

    getrusage(RUSAGE_SELF, &use);
    printf("{\"requests\":%llu,\"seconds\":%.6f,\"rps\":%.1f,\"connections\":%llu,\"bytes\":%llu,"
           "\"handshakes\":%llu,\"resumed\":%llu,\"client_cpu\":%.6f,\"errors\":{",
           (unsigned long long) done, seconds, (double) done / seconds, (unsigned long long) opened,
           (unsigned long long) body_bytes, (unsigned long long) tls_handshakes,
           (unsigned long long) tls_resumed,
           (double) (use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
               (double) (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    for (unsigned i = 0; i < FAIL_KINDS; i++) {
        printf("%s\"%s\":%llu", i > 0 ? "," : "", failure_names[i],
               (unsigned long long) failures[i]);
        errors += failures[i];
    }
    printf(
        "},\"latency_us\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}}\n",
        latency_us(0.5), latency_us(0.9), latency_us(0.99), latency_us(0.999), latency_us(1));
    exit(errors > 0);
}

int main(int argc, char **argv)
{
    struct connection *connections;
    uint64_t start;

    options_read(argc, argv);
    if (opt.is_tls)
        tls_prepare(opt.host, opt.resumes);
    connections = calloc(opt.hold > 0 ? opt.hold : opt.connections, sizeof *connections);
    if (connections == NULL)
        die("calloc");
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("epoll_create1");
    start = now = clock_ns();
    if (opt.hold > 0)
        run_hold(connections);
    else
        run_load(connections);
    report((double) (clock_ns() - start) / 1e9);
}
