/* Accepting: from this worker's own sockets, those of busy siblings, and adopted ones. */
#define _GNU_SOURCE
#include "net/shards/acceptor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/conn.h"
#include "net/shards/coalesce.h"
#include "net/shards/placement.h"
#include "net/shards/retire.h"
#include "net/shards/capacity.h"
#include "net/shards/slots.h"

#define BURST_MOST 16      /* accepted in one turn without multi_accept */
#define COALESCED_MOST 64  /* most connections accepted in one turn while coalescing is on */
#define DRAINED_MOST 256   /* most accepted from a socket that is about to be unwatched */
#define BURST_CONFIDENT 4u /* from here on more connections are expected after the first */
#define BURST_SURE 7u
/* While less confident: one event in so many looks for a second connection. */
#define BURST_PROBE 16u
#define ORDER_EVERY_MS 1000

struct acceptor *acceptors;
static struct accept_options accept_options;
static unsigned own_slot;
static uint64_t
    stops;           /* incremented when an acceptor is freed, so that loops over them notice it */
static bool is_last; /* this worker has many more connections than the mean: it queues up last */
static uint64_t order_at_ms; /* when the order is checked next */

/* ---- watching ---- */

bool acceptor_watch(struct acceptor *acceptor)
{
    acceptor->order =
        atomic_load_explicit(&shard_slot(acceptor->slot)->order, memory_order_relaxed);
    if (capacity_is_paused() || (acceptor->kind != ACCEPTOR_RETIRED && !placement_accepts()) ||
        event_add_listener(&acceptor->source, true)) {
        return true;
    }
    log_alert(acceptor->listener->log, errno, "epoll_ctl() failed for %.*s",
              STR_ARG(acceptor->listener->text));
    return false;
}

void acceptors_watch(void)
{
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        acceptor_watch(acceptor);
    }
}

void acceptors_unwatch(void)
{
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        if (capacity_is_paused() || acceptor->kind != ACCEPTOR_RETIRED) {
            event_remove(&acceptor->source);
        }
    }
}

/*
 * The kernel wakes the watchers of a socket in the order in which they registered. Registering
 * again makes this worker the last, and connections that wait there are reported again.
 */
static void queue_up(struct acceptor *acceptor)
{
    event_remove(&acceptor->source);
    acceptor_watch(acceptor);
}

/* ---- order of wakeups ---- */

/* Makes this worker the first at its own sockets again: its siblings register again after it when
 * they see the new value. */
static void come_first(void)
{
    atomic_fetch_add_explicit(&shard_slot(own_slot)->order, 1, memory_order_relaxed);
}

/*
 * With many more connections than the mean this worker queues up last everywhere, so that it
 * accepts only when its siblings are busy. Repeated now and then, since siblings queue up as well.
 */
static void find_position(void)
{
    bool was_last = is_last;

    order_at_ms = clock_now.now_ms + ORDER_EVERY_MS;
    is_last = shard_slot_is_ahead(own_slot, accept_options.slots);
    for (struct acceptor *acceptor = acceptors; is_last && acceptor != NULL;
         acceptor = acceptor->next) {
        queue_up(acceptor);
    }
    if (was_last && !is_last) {
        come_first();
    }
}

/* A socket has a connection: queues up again where the order of wakeups requires it. */
static void keep_order(struct acceptor *acceptor)
{
    if (accept_options.slots < 2) {
        return;
    }
    if (acceptor->kind == ACCEPTOR_SIBLING &&
        acceptor->order !=
            atomic_load_explicit(&shard_slot(acceptor->slot)->order, memory_order_relaxed)) {
        queue_up(acceptor);
    }
    if (clock_now.now_ms >= order_at_ms) {
        find_position();
    }
}

/* ---- accepting ---- */

/* Handles a failure of accept4. True: try again at once. */
static bool accept_failed(struct acceptor *acceptor, int error)
{
    const struct listener *listener = acceptor->listener;

    switch (error) {
    case EAGAIN:
        return false;
    case EINTR:
        return true;
    case EINVAL:
        /* The socket of a slot that was retired meanwhile (shard_close_top): no connection can
         * come. */
        event_remove(&acceptor->source);
        return false;
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case ETIMEDOUT:
        /* The error of one connection, which is gone. */
        log_error(listener->log, error, "accept4() failed");
        return true;
    case EBADF:
        /* The socket was closed elsewhere; the others still work. */
        log_alert(listener->log, error, "accept4() failed on slot %u", acceptor->slot);
        event_remove(&acceptor->source);
        return false;
    default:
        return capacity_made_for_descriptor(listener, error);
    }
}

/* Should this turn look for another connection after `n` were accepted? */
static bool wants_another(struct acceptor *acceptor, unsigned n)
{
    switch (acceptor->kind) {
    case ACCEPTOR_RETIRED:
        return true;
    case ACCEPTOR_SIBLING:
        if (placement_sibling_accepts(acceptor->slot)) {
            return false;
        }
        break;
    case ACCEPTOR_COMMON:
        if (!placement_is_alone()) {
            return accept_options.multi_accept;
        }
        break;
    case ACCEPTOR_OWN:
        break;
    }
    if (accept_options.multi_accept) {
        return true;
    }
    if (coalesce_is_on()) {
        return n < COALESCED_MOST;
    }
    if (n >= BURST_MOST) {
        return false;
    }
    if (n > 1) {
        acceptor->confidence += acceptor->confidence < BURST_SURE;
        return true;
    }
    return acceptor->confidence >= BURST_CONFIDENT || ++acceptor->probe % BURST_PROBE == 0;
}

/*
 * Connections in the accept queue. accept4() allocates a socket and a file before it looks at the
 * queue, so a call that finds none costs seven times as much as this one. 0 may also mean that the
 * kernel does not report the length: the next turn accepts what waits.
 */
static unsigned connections_waiting(const struct acceptor *acceptor)
{
    struct pollfd queue = {.fd = acceptor->source.fd, .events = POLLIN};

    if (acceptor->listener->addr.any.sa_family == AF_UNIX) {
        return poll(&queue, 1, 0) > 0;
    }
    return shard_backlog(acceptor->source.fd);
}

/* The nth connection of this turn was accepted, of *waiting that are known. Is there another? */
static bool has_another(struct acceptor *acceptor, unsigned n, unsigned *waiting)
{
    if (--*waiting == 0) {
        *waiting = connections_waiting(acceptor);
        if (*waiting == 0 && n == 1 && !accept_options.multi_accept) {
            acceptor->confidence -= acceptor->confidence > 0;
        }
    }
    return *waiting != 0;
}

/* Counts a connection accepted from the socket of a slot. */
static void count_accepted(const struct acceptor *acceptor)
{
    struct shard_slot *slot = shard_slot(acceptor->slot);

    atomic_fetch_add_explicit(acceptor->kind == ACCEPTOR_SIBLING   ? &slot->taken
                              : acceptor->kind == ACCEPTOR_RETIRED ? &slot->adopted
                                                                   : &slot->own,
                              1, memory_order_relaxed);
}

/* The result of an attempt to accept. */
enum accept_result { ACCEPT_DONE, ACCEPT_AGAIN, ACCEPT_EMPTY, ACCEPT_STOPPED };

/* Accepts one connection. is_sure: an event reported one. Otherwise no idle connection is closed to
 * make space, since there may be none to accept: without a free descriptor the kernel does not even
 * look at the queue. */
static enum accept_result accept_one(struct acceptor *acceptor, bool is_sure)
{
    struct listener *listener = acceptor->listener;
    struct addr peer = {.len = sizeof(peer.un)};
    bool has_room = conn_pool.used < conn_pool.limit;

    if (!has_room && (!is_sure || !capacity_make(listener, &has_room))) {
        return ACCEPT_STOPPED;
    }
    int fd = accept4(acceptor->source.fd, &peer.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd == -1) {
        if (errno == EAGAIN) {
            return ACCEPT_EMPTY;
        }
        if (!is_sure && (errno == EMFILE || errno == ENFILE)) {
            return ACCEPT_STOPPED;
        }
        return accept_failed(acceptor, errno) ? ACCEPT_AGAIN : ACCEPT_STOPPED;
    }
    count_accepted(acceptor);
    if (acceptor->retirement != NULL) {
        retirement_accepted(acceptor->retirement);
    }
    conn_pool.refused += !has_room;
    listener->accepted(listener, fd, &peer);
    capacity_taken();
    return ACCEPT_DONE;
}

static void acceptor_ready(struct event_source *source, unsigned events)
{
    struct acceptor *acceptor = container_of(source, struct acceptor, source);
    uint64_t stops_before = stops;
    enum accept_result result;
    unsigned n = 0;
    unsigned waiting = 1; /* as the event reported */

    keep_order(acceptor);
    do {
        result = accept_one(acceptor, n == 0);
        n += result == ACCEPT_DONE;
        loop_run_urgent();
        /* The callback may have freed this acceptor. */
    } while (result == ACCEPT_AGAIN ||
             (result == ACCEPT_DONE && stops == stops_before && !capacity_is_paused() &&
              wants_another(acceptor, n) && has_another(acceptor, n, &waiting)));
    if (n != 0) {
        coalesce_after(n, result == ACCEPT_EMPTY || waiting == 0);
    } else {
        atomic_fetch_add_explicit(&shard_slot(own_slot)->in_vain, 1, memory_order_relaxed);
    }
}

unsigned acceptors_drain(void)
{
    uint64_t stops_before = stops;
    unsigned n = 0;

    for (struct acceptor *acceptor = acceptors; acceptor != NULL && stops == stops_before;
         acceptor = acceptor->next) {
        enum accept_result result;
        unsigned most = DRAINED_MOST;

        if (acceptor->kind == ACCEPTOR_RETIRED) {
            continue;
        }
        do {
            result = accept_one(acceptor, false);
            n += result == ACCEPT_DONE;
        } while (--most != 0 && result <= ACCEPT_AGAIN && stops == stops_before &&
                 !capacity_is_paused());
    }
    return n;
}

/* ---- acceptors of this worker ---- */

struct acceptor *acceptor_new(struct listener *listener, enum acceptor_kind kind, unsigned slot,
                              int fd)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor));

    if (acceptor == NULL) {
        return NULL;
    }
    event_source_init(&acceptor->source, fd, acceptor_ready);
    acceptor->listener = listener;
    acceptor->kind = kind;
    acceptor->slot = slot;
    acceptor->next = acceptors;
    acceptors = acceptor;
    return acceptor;
}

void acceptor_free(struct acceptor *acceptor)
{
    struct acceptor **link = &acceptors;

    while (*link != acceptor) {
        link = &(*link)->next;
    }
    *link = acceptor->next;
    stops++;
    event_remove(&acceptor->source);
    if (acceptor->retirement != NULL) {
        retirement_free(acceptor->retirement);
        close(acceptor->source.fd);
    }
    free(acceptor);
}

static bool accept_from(struct listener *listener, enum acceptor_kind kind, unsigned slot, int fd)
{
    struct acceptor *acceptor = acceptor_new(listener, kind, slot, fd);

    if (acceptor == NULL) {
        log_emerg(listener->log, ENOMEM, "could not accept on %.*s", STR_ARG(listener->text));
        return false;
    }
    if (!acceptor_watch(acceptor)) {
        acceptor_free(acceptor);
        return false;
    }
    return true;
}

/* Watches the sockets of siblings after this worker's own, the nearest first, so that each socket
 * has another first helper. */
static bool lend_a_hand(struct listener *listener, unsigned slot, unsigned slots)
{
    const struct shard_set *set = listener->shards;

    for (unsigned i = 0; i < set->count; i++) {
        unsigned other = (slot + set->count - i) % set->count;
        bool is_own = set->is_sharded ? other == slot : other == 0;

        if (!is_own && set->fds[other] != -1 && shard_is_watched(other, slot, slots) &&
            !accept_from(listener, ACCEPTOR_SIBLING, other, set->fds[other])) {
            return false;
        }
    }
    return true;
}

bool acceptors_start(struct listener *listeners, unsigned slot,
                     const struct accept_options *options)
{
    accept_options = *options;
    own_slot = slot;
    order_at_ms = clock_now.now_ms + ORDER_EVERY_MS;
    shard_slot_begin(slot, options);
    coalesce_begin(options->slots == 0 ? 1 : options->slots);
    capacity_begin(slot, options->slots);
    placement_start(options->generation, slot, options->slots, options->hand_over);
    for (struct listener *listener = listeners; listener != NULL; listener = listener->next) {
        const struct shard_set *set = listener->shards;
        int fd = set == NULL ? -1 : shard_fd(set, slot);

        CHECK_MAGIC(listener, LISTENER_MAGIC);
        if (fd == -1 || listener->options.is_datagram) {
            continue;
        }
        if (!accept_from(listener, set->is_sharded ? ACCEPTOR_OWN : ACCEPTOR_COMMON, slot, fd) ||
            !lend_a_hand(listener, slot, options->slots)) {
            return false;
        }
    }
    come_first();
    return true;
}

void acceptors_stop(void)
{
    struct acceptor *next;

    placement_stop();
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = next) {
        next = acceptor->next;
        acceptor_free(acceptor);
    }
    is_last = false;
    capacity_end();
}

void acceptors_look_at(unsigned slot)
{
    if (!placement_accepts()) {
        placement_join();
        return;
    }
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        if (acceptor->kind == ACCEPTOR_SIBLING && acceptor->slot == slot) {
            queue_up(acceptor);
        }
    }
}
