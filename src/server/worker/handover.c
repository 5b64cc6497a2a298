/* Parked connections that are handed over from an old worker to its successor. */
#define _GNU_SOURCE
#include "server/worker/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fatal.h"
#include "base/list.h"
#include "event/loop.h"
#include "net/conn/conn.h"
#include "net/shards/listener.h"
#include "server/worker/batch.h"

enum {
    UNDER_WAY_MOST = 32768, /* bytes that the kernel may queue: a connection waits for all that are
                               queued before it */
    RETRY_MS = 20, /* when too many descriptors are in flight; also how long to wait for a newer
                      successor */
    LOG_EVERY_MS = 1000,
};

struct handover *handover_now;

/* ---- sending */

static struct {
    struct handover face;
    struct event_source source;
    bool is_accepted;      /* the other end has reported that it takes connections */
    struct deferred flush; /* runs at the end of the turn */
    struct timer retry;
    struct batch *first; /* oldest; the last one is still being filled */
    struct batch **last;
    uint64_t *gone; /* bits by number of listener, heap */
    unsigned gone_bits;
} out = {.source = {.fd = -1}, .last = &out.first};

void handover_listener_gone(unsigned number)
{
    if (number >= out.gone_bits) {
        unsigned words = out.gone_bits / 64;
        unsigned wanted = number / 64 + 1;

        out.gone = realloc(out.gone, wanted * sizeof(*out.gone));
        if (out.gone == NULL) {
            fatal_no_memory(wanted * sizeof(*out.gone));
        }
        memset(out.gone + words, 0, (wanted - words) * sizeof(*out.gone));
        out.gone_bits = wanted * 64;
    }
    out.gone[number / 64] |= (uint64_t) 1 << number % 64;
}

static bool listener_is_gone(const struct listener *listener)
{
    unsigned number = 0;

    for (const struct listener *l = generation_now->listeners; l != listener; l = l->next) {
        if (l == NULL) {
            return true; /* a listener of an even older generation */
        }
        number++;
    }
    return number < out.gone_bits && (out.gone[number / 64] >> number % 64 & 1) != 0;
}

/* The batch that the next connection is added to. */
static struct batch *batch_for(struct listener *listener, size_t size)
{
    if (out.first != NULL) {
        struct batch *batch = (struct batch *) ((char *) out.last - offsetof(struct batch, next));

        if (batch_takes(batch, listener, size)) {
            return batch;
        }
    }
    struct batch *batch = batch_new(listener);

    *out.last = batch;
    out.last = &batch->next;
    return batch;
}

static bool takes_listener(const struct handover *handover, const struct listener *listener)
{
    return !listener_is_gone(listener);
}

static bool send_one(struct handover *handover, struct listener *listener, int fd,
                     const void *state, size_t size)
{
    if (size > STATE_MOST || !takes_listener(handover, listener)) {
        return false;
    }
    batch_add(batch_for(listener, size), fd, state, size);
    loop_defer(&out.flush);
    return true;
}

static bool is_behind(const struct handover *handover)
{
    return out.first != NULL && out.first->next != NULL;
}

static struct batch *take_first(void)
{
    struct batch *batch = out.first;

    out.first = batch->next;
    if (out.first == NULL) {
        out.last = &out.first;
    }
    return batch;
}

/* The oldest batch was sent, or the process ends: closes its descriptors here. */
static void drop_first(void)
{
    struct batch *batch = take_first();

    for (unsigned i = 0; i < batch->count; i++) {
        close(batch->fds[i]);
    }
    free(batch);
}

static void close_source(void)
{
    loop_undefer(&out.flush);
    event_remove(&out.source);
    close(out.source.fd);
    event_forget(&out.source);
    out.source.fd = -1;
}

/* The successor has ended. A newer one may be announced soon. */
static void wait_for_another(void)
{
    close_source();
    timer_set(&out.retry, clock_now.now_ms + RETRY_MS);
}

static void tell_caught_up(void)
{
    void (*caught_up)(void) = out.face.caught_up;

    out.face.caught_up = NULL;
    if (caught_up != NULL) {
        caught_up();
    }
}

/* There is none: this worker keeps the connections that the last one did not get. */
static void keep_rest(void)
{
    struct batch *batch = out.first;

    out.first = NULL;
    out.last = &out.first;
    handover_end();
    while (batch != NULL) {
        struct batch *next = batch->next;

        handover_take(batch->data, batch->size, batch->fds, batch->count);
        free(batch);
        batch = next;
    }
    tell_caught_up();
}

static void send_batches(void)
{
    while (out.first != NULL && out.source.fd >= 0 && out.is_accepted) {
        if (batch_send(out.first, out.source.fd)) {
            drop_first();
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            event_want_output(&out.source);
            return;
        } else if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) {
            timer_set(&out.retry, clock_now.now_ms + RETRY_MS);
            return;
        } else {
            if (errno != EPIPE && errno != ECONNRESET) {
                log_alert(log_main, errno, "sendmsg() to the next worker failed");
            }
            wait_for_another();
        }
    }
}

static void handover_flush(struct deferred *deferred)
{
    send_batches();
    if (!is_behind(&out.face)) {
        tell_caught_up();
    }
}

static void out_ready(struct event_source *source, unsigned events)
{
    char byte;

    if ((events & (EVENT_ERROR | EVENT_PEER_CLOSED)) != 0) {
        wait_for_another();
        return;
    }
    if (!out.is_accepted) {
        out.is_accepted = recv(source->fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0;
    }
    handover_flush(&out.flush);
}

static void retry(struct timer *timer)
{
    if (out.source.fd < 0) {
        keep_rest();
    } else {
        handover_flush(&out.flush);
    }
}

void handover_start(int fd)
{
    if (handover_now != &out.face) {
        deferred_init(&out.flush, handover_flush);
        timer_init(&out.retry, retry);
    } else {
        timer_clear(&out.retry);
    }
    if (out.source.fd >= 0) {
        close_source();
    }
    event_source_init(&out.source, fd, out_ready);
    out.is_accepted = false;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){UNDER_WAY_MOST}, sizeof(int)) != 0) {
        log_alert(log_main, errno, "setsockopt(SO_SNDBUF) failed");
    }
    out.face.takes = takes_listener;
    out.face.send = send_one;
    out.face.is_behind = is_behind;
    handover_now = &out.face;
    if (!event_add(&out.source)) {
        log_alert(log_main, errno, "epoll_ctl() failed");
        close(fd);
        out.source.fd = -1;
        keep_rest();
        return;
    }
    loop_defer(&out.flush);
}

bool handover_is_done(void)
{
    return out.first == NULL;
}

void handover_end(void)
{
    if (out.source.fd >= 0) {
        close_source();
    }
    if (handover_now == &out.face) {
        handover_now = NULL;
        loop_undefer(&out.flush);
        timer_remove(&out.retry);
    }
    while (out.first != NULL) {
        drop_first();
    }
}

void handover_free(void)
{
    handover_end();
    free(out.gone);
    out.gone = NULL;
    out.gone_bits = 0;
}

/* ---- receiving */

/* One older worker that sends connections. */
struct incoming {
    struct incoming *next;
    bool is_mailbox; /* the mailbox of the slot: the next worker there continues to read it */
    struct event_source source;
};

static struct incoming *incoming_first;

static struct listener *listener_of(struct generation *generation, const struct addr *addr,
                                    uint32_t opening)
{
    for (struct listener *l = generation->listeners; l != NULL; l = l->next) {
        if (l->opening == opening && !l->options.is_datagram && addr_equal(&l->addr, addr)) {
            return l;
        }
    }
    return NULL;
}

static bool may_log(uint64_t *logged_ms)
{
    if (*logged_ms != 0 && clock_now.now_ms - *logged_ms < LOG_EVERY_MS) {
        return false;
    }
    *logged_ms = clock_now.now_ms;
    return true;
}

/* There were too few free descriptors: the kernel has closed those of a message that exceeded the
   limit. */
static void count_lost(unsigned lost, bool is_mailbox)
{
    static uint64_t logged_ms;

    counters_mine->limited += lost;
    if (may_log(&logged_ms)) {
        log_crit(log_main, EMFILE, "%u idle connections of an%s worker are closed", lost,
                 is_mailbox ? "other" : " older");
    }
}

static bool has_room_for(unsigned n)
{
    return conn_pool.limit - conn_pool.used >= n && descriptors_left(conn_pool.used) >= n;
}

/*
 * A sibling sends only as many connections as this worker has offered to take (placement.h), but
 * this worker may have opened others since then. Then connections that were idle for longer are
 * closed in favour of those that were busy lately.
 */
static void make_room_for_message(int from)
{
    if (has_room_for(BATCH_MOST)) {
        return;
    }
    unsigned wanted = batch_peek(from);
    for (unsigned looks = wanted; looks != 0 && !has_room_for(wanted); looks--) {
        if (!acceptors_make_room()) {
            return;
        }
    }
}

/* This worker may have a lower limit of connections than the older one had. */
static bool has_room(void)
{
    static uint64_t logged_ms;

    if (conn_pool.used < conn_pool.limit) {
        return true;
    }
    counters_mine->limited++;
    if (may_log(&logged_ms)) {
        log_crit(
            log_main, 0,
            "%u worker_connections are not enough, idle connections of an older worker are closed",
            conn_pool.limit);
    }
    return false;
}

/* Gives the descriptor to the listener, or closes it when the client has gone or no listener takes
   it. */
static void hand_in(struct listener *listener, int fd, const void *state, size_t size)
{
    struct addr peer = {.len = sizeof(peer) - offsetof(struct addr, any)};

    if (listener == NULL || listener->handed_over == NULL ||
        getpeername(fd, &peer.any, &peer.len) != 0 || !has_room()) {
        close(fd);
        return;
    }
    listener->handed_over(listener, fd, &peer, state, size);
}

void handover_take(const char *data, size_t size, const int *fds, unsigned count)
{
    struct listener *listener = NULL;
    struct addr addr;
    struct str state;
    uint32_t opening;
    size_t at = 0;
    unsigned i = 0;

    if (batch_listener(data, size, &addr, &opening)) {
        listener = listener_of(generation_now, &addr, opening);
        for (; i < count && batch_next(data, size, &at, &state); i++) {
            hand_in(listener, fds[i], state.data, state.len);
        }
    }
    for (; i < count; i++) {
        close(fds[i]);
    }
}

static unsigned take_descriptors(struct msghdr *header, int *fds)
{
    unsigned count = 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
            size_t bytes = part->cmsg_len - CMSG_LEN(0);

            count = (unsigned) (bytes / sizeof(int));
            memcpy(fds, CMSG_DATA(part), count * sizeof(int));
        }
    }
    return count;
}

static void incoming_close(struct incoming *incoming)
{
    struct incoming **link = &incoming_first;

    while (*link != incoming) {
        link = &(*link)->next;
    }
    *link = incoming->next;
    event_remove(&incoming->source);
    close(incoming->source.fd);
    event_forget(&incoming->source);
    free(incoming);
}

/* Takes one message, if there is one. False: there was none; is_over: and there will be no more. */
static bool take_message(const struct incoming *incoming, bool *is_over)
{
    static char data[BATCH_SIZE];
    struct iovec part = {data, sizeof(data)};
    union batch_control control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.buffer,
                            .msg_controllen = sizeof(control.buffer)};
    int fds[BATCH_MOST];

    if (incoming->is_mailbox) {
        make_room_for_message(incoming->source.fd);
    }
    ssize_t n = recvmsg(incoming->source.fd, &header, MSG_CMSG_CLOEXEC);
    *is_over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n <= 0) {
        return n < 0 && errno == EINTR;
    }
    unsigned count = take_descriptors(&header, fds);
    if ((header.msg_flags & MSG_CTRUNC) != 0) {
        unsigned sent = batch_count(data, (size_t) n);
        count_lost(sent > count ? sent - count : 0, incoming->is_mailbox);
    }
    handover_take(data, (size_t) n, fds, count);
    return true;
}

/* Takes one message a turn, so that clients of this worker are served in between. */
static void incoming_ready(struct event_source *source, unsigned events)
{
    struct incoming *incoming = container_of(source, struct incoming, source);
    bool is_over;

    take_message(incoming, &is_over);
    if (is_over) {
        incoming_close(incoming);
    }
}

/*
 * The socket was passed on by one or two masters, and each of them may have closed it, with
 * everything in it. So the older worker sends nothing before the worker at this end has reported
 * that it reads.
 */
static void send_acceptance(int fd)
{
    send(fd, &(char){0}, 1, MSG_NOSIGNAL); /* fails if the older worker has ended */
}

void handover_receive(int fd, bool is_mailbox)
{
    struct incoming *incoming = calloc(1, sizeof(*incoming));

    if (incoming == NULL) {
        fatal_no_memory(sizeof(*incoming));
    }
    event_source_init(&incoming->source, fd, incoming_ready);
    incoming->is_mailbox = is_mailbox;
    incoming->next = incoming_first;
    incoming_first = incoming;
    if (!event_add_listener(&incoming->source, false)) {
        log_alert(log_main, errno, "epoll_ctl() failed");
        incoming_close(incoming);
    } else if (!is_mailbox) {
        send_acceptance(fd);
    }
}

void handover_receive_end(bool has_successor)
{
    bool is_over;

    while (incoming_first != NULL) {
        /* From now on send() fails at the other end, so that nothing is lost between here and
           close(). */
        if (!incoming_first->is_mailbox || !has_successor) {
            shutdown(incoming_first->source.fd, SHUT_RD);
        }
        while (take_message(incoming_first, &is_over)) {
        }
        incoming_close(incoming_first);
    }
}

/* ---- in one process */

static struct {
    struct handover face;
    struct generation *to;
} within;

static bool takes_within(const struct handover *handover, const struct listener *listener)
{
    const struct listener *next = listener_of(within.to, &listener->addr, listener->opening);

    /* Connections of all generations are visited, so those that were handed over already come up
     * again. */
    return next != NULL && next != listener && next->handed_over != NULL;
}

static bool send_within(struct handover *handover, struct listener *listener, int fd,
                        const void *state, size_t size)
{
    struct listener *next = listener_of(within.to, &listener->addr, listener->opening);

    if (!takes_within(handover, listener)) {
        return false;
    }
    hand_in(next, fd, state, size);
    return true;
}

void handover_within(struct generation *to)
{
    within.face.takes = takes_within;
    within.face.send = send_within;
    within.to = to;
    handover_now = to == NULL ? NULL : &within.face;
}
