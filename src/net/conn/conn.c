/* Connections: their pool, their life, events of the loop, and the idle list. */
#define _GNU_SOURCE
#include "net/conn/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/conn/own.h"
#include "net/conn/private.h"

#define BLOCK_BYTES (256 * 1024) /* large, so that the allocator's overhead is negligible */
#define CONNS_PER_BLOCK ((BLOCK_BYTES - sizeof(void *)) / sizeof(struct conn))

/*
 * Connections are allocated in blocks that are never freed, so that `life` can be read at any time.
 * A block's memory is touched only as connections need it.
 */
struct conn_block {
    struct conn_block *next;
    struct conn conns[CONNS_PER_BLOCK];
};

struct conn_pool_stats conn_pool;
static struct conn_block *blocks; /* newest first */
static size_t block_used;         /* connections of the newest block that were ever used */
static struct conn *free_conns;   /* last in, first out; linked by user */
static struct list idle_conns;    /* idle for longest first */

static _Atomic uint64_t own_serial;
_Atomic uint64_t *conn_serial = &own_serial;

void conn_pool_init(uint32_t limit)
{
    conn_pool.limit = limit;
    if (idle_conns.next == NULL) {
        list_init(&idle_conns);
    }
}

/* A connection that was never used; all zero. */
static struct conn *conn_fresh(void)
{
    if (blocks == NULL || block_used == CONNS_PER_BLOCK) {
        struct conn_block *block = calloc(1, sizeof(*block));

        if (block == NULL) {
            fatal_no_memory(sizeof(*block));
        }
        block->next = blocks;
        blocks = block;
        block_used = 0;
    }
    return &blocks->conns[block_used++];
}

static void conn_free(struct conn *conn)
{
    conn->magic = 0;
    conn->life++;
    conn->user = free_conns;
    free_conns = conn;
    conn_pool.used--;
}

/* ---- events of the loop ---- */

static void deadline_passed(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, timer);
    uint32_t life = conn->life;

    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->owner->timed_out == NULL) {
        return;
    }
    conn->owner->timed_out(conn);
    if (conn->life == life && deferred_is_pending(&conn->flush)) {
        conn_flush_from_loop(conn);
    }
}

void conn_call_input(struct conn *conn)
{
    uint32_t life = conn->life;

    if (conn->is_idle) {
        conn_unpark(conn);
    }
    if (conn->owner->input == NULL) {
        conn_wake_input(conn);
    } else {
        conn->owner->input(conn);
    }
    if (conn->life == life && deferred_is_pending(&conn->flush)) {
        conn_flush_from_loop(conn);
    }
}

void conn_break(struct conn *conn, int error)
{
    if (!conn->is_broken) {
        conn->is_broken = 1;
        conn->error = (uint16_t) error;
    }
    conn->is_readable = conn->is_writable = 0;
    conn_out_drop(conn);
}

void conn_fail(struct conn *conn, int error)
{
    conn_break(conn, error);
}

/* A paused connection does not read, so the error has to be fetched from the socket. */
static void fetch_error(struct conn *conn)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0) {
        conn_break(conn, error);
    }
}

/* Handles every event except plain input. */
static void conn_ready_otherwise(struct conn *conn, unsigned events)
{
    uint32_t life = conn->life;

    if (events & (EVENT_PEER_CLOSED | EVENT_ERROR)) {
        conn->is_peer_closed = 1;
    }
    if (events & EVENT_WRITE) {
        conn->is_writable = 1;
    }
    /* A transport may have waited for input before it could send. */
    if (conn->is_output_waiting && (events & EVENT_WRITE || conn->transport != NULL)) {
        conn->is_writable = 1;
        if (conn->transport != NULL && conn->transport->drain != NULL) {
            conn->transport->drain(conn);
            if (conn->life != life) {
                return;
            }
        }
        conn_flush_from_loop(conn);
        if (conn->life != life) {
            return;
        }
    }
    if (events & EVENT_WRITE && conn->output_wait.waiter != NULL && conn_unsent(conn) == 0) {
        /* A fiber waits for the end of connect(). */
        wait_signal(&conn->output_wait);
        if (conn->life != life) {
            return;
        }
    }
    if ((events & EVENT_READ) == 0) {
        return;
    }
    if (conn->is_input_paused) {
        if (!conn->is_peer_closed) {
            return;
        }
        if (events & EVENT_ERROR) {
            fetch_error(conn);
        }
    }
    conn_call_input(conn);
}

static void conn_ready(struct event_source *source, unsigned events)
{
    struct conn *conn = container_of(source, struct conn, source);

    CHECK_MAGIC(conn, CONN_MAGIC);
    if (events & EVENT_READ) {
        conn->is_readable = 1;
    }
    if (events == EVENT_READ && !conn->is_output_waiting && !conn->is_input_paused) {
        conn_call_input(conn);
    } else {
        conn_ready_otherwise(conn, events);
    }
}

/* ---- life ---- */

struct conn *conn_new(int fd, const struct addr *peer, const struct conn_owner *owner,
                      struct log *log)
{
    if (conn_pool.used >= conn_pool.limit) {
        return NULL;
    }
    struct conn *conn = free_conns;
    if (conn != NULL) {
        free_conns = conn->user;
    } else {
        conn = conn_fresh();
    }
    conn_pool.used++;

    uint32_t life = conn->life;
    memset(conn, 0, sizeof(*conn));
    conn->magic = CONN_MAGIC;
    conn->life = life;
    event_source_init(&conn->source, fd, conn_ready);
    conn->owner = owner;
    conn->is_readable = 1;
    conn->is_writable = 1;
    conn->is_fresh = 1;
    deferred_init(&conn->flush, conn_flush_deferred);
    timer_init(&conn->timer, deadline_passed);
    conn->log = log;
    uint64_t number = atomic_fetch_add_explicit(conn_serial, 1, memory_order_relaxed) + 1;
    conn->number_low = (uint32_t) number;
    conn->number_high = (uint32_t) (number >> 32);
    if (peer != NULL && peer->len != 0) {
        conn->is_tcp = peer->any.sa_family == AF_INET || peer->any.sa_family == AF_INET6;
        conn->address_length = (uint16_t) peer->len;
        if (peer->len == sizeof(conn->peer.v4)) {
            conn->peer.v4 = peer->v4;
        } else if (peer->len <= sizeof(conn->peer.v6)) {
            memcpy(&conn->peer, &peer->any, peer->len);
        } else {
            conn->peer.other = malloc(sizeof(*peer));
            if (conn->peer.other == NULL) {
                fatal_no_memory(sizeof(*peer));
            }
            *conn->peer.other = *peer;
        }
    }
    return conn;
}

static void conn_go_idle(struct conn *conn)
{
    if (!conn->is_idle) {
        assert(conn->input_wait.waiter == NULL);
        conn->is_idle = 1;
        list_push_back(&idle_conns, &conn->idle_node);
        conn_pool.idle++;
    }
}

/* Registers the connection with the loop. */
static void watch_from_start(struct conn *conn)
{
    if (!conn_watch(conn)) {
        conn_break(conn, errno);
        conn_call_input(conn);
    }
}

void conn_take_up(struct conn *conn)
{
    uint32_t life = conn->life;

    CHECK_MAGIC(conn, CONN_MAGIC);
    conn_call_input(conn);
    if (conn->life == life && !conn->is_ending) {
        watch_from_start(conn);
    }
}

void conn_start(struct conn *conn)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn_expects_input()) {
        conn_take_up(conn);
    } else {
        /* No input is expected yet. */
        conn_go_idle(conn);
        watch_from_start(conn);
    }
}

/* Releases everything but the descriptor. */
static void conn_strip(struct conn *conn)
{
    loop_undefer(&conn->flush);
    timer_remove(&conn->timer);
    conn_unpark(conn);
    if (conn->out != NULL) {
        conn_out_drop(conn);
    }
    if (conn->in != NULL) {
        conn_buffer_free(conn->in, conn->in_size);
        conn->in = NULL;
    }
    if (conn->address_length > sizeof(conn->peer.v6)) {
        free(conn->peer.other);
    }
    if (conn->transport != NULL && conn->transport->close != NULL) {
        conn->transport->close(conn);
    }
    conn_backend_is_busy(conn, false);
}

void conn_close(struct conn *conn)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->is_noted) {
        struct addr peer;

        conn_peer(conn, &peer);
        own_forget(conn->source.fd, &peer);
    }
    conn_strip(conn);
    if (conn->source.fd != -1) {
        event_forget(&conn->source);
        if (conn->is_fin_awaited) {
            /* With unread input close() sends RST and drops the bytes that MSG_MORE held back. */
            shutdown(conn->source.fd, SHUT_WR);
        }
        close(conn->source.fd);
    }
    conn_free(conn);
    if (conn_pool.freed != NULL) {
        conn_pool.freed();
    }
}

void conn_reset(struct conn *conn)
{
    struct linger abortive = {.l_onoff = 1, .l_linger = 0};

    CHECK_MAGIC(conn, CONN_MAGIC);
    if (setsockopt(conn->source.fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive)) == -1) {
        log_debug(conn->log, errno, "setsockopt(SO_LINGER) failed");
    }
    conn->is_fin_awaited = 0;
    conn_close(conn);
}

void conn_peer(const struct conn *conn, struct addr *out)
{
    if (conn->address_length > sizeof(conn->peer.v6)) {
        *out = *conn->peer.other;
        return;
    }
    out->len = conn->address_length;
    out->any.sa_family = AF_UNSPEC;
    memcpy(&out->any, &conn->peer, conn->address_length);
}

/* ---- backends ---- */

void conn_backend_is_busy(struct conn *conn, bool is_busy)
{
    uint32_t more = is_busy ? 1 : UINT32_MAX;

    if (conn->is_busy_backend == is_busy) {
        return;
    }
    conn->is_busy_backend = is_busy;
    conn_pool.backends += more;
    conn_pool.own += conn->is_at_home ? more : 0;
}

bool conn_note_own(struct conn *conn, const struct addr *peer, unsigned hops)
{
    conn->is_noted = 1;
    return conn_note_own_by(conn, conn->source.fd, peer, hops);
}

bool conn_note_own_by(struct conn *conn, int fd, const struct addr *peer, unsigned hops)
{
    bool has_room = conn_pool_has_room(true);

    conn->is_at_home = own_note(fd, peer, hops);
    conn_pool.own += conn->is_at_home;
    return has_room || !conn->is_at_home;
}

unsigned conn_hops(const struct conn *conn)
{
    struct addr peer;

    conn_peer(conn, &peer);
    return own_hops(conn->source.fd, &peer);
}

/* ---- options ---- */

void conn_set_nodelay(struct conn *conn, bool on)
{
    int value = on;

    if (!conn->is_tcp) {
        return;
    }
    if (!conn->is_nodelay_known) {
        /* Listeners have it on, and accepted sockets inherit it. */
        conn->is_nodelay = conn->listener != NULL;
        conn->is_nodelay_known = 1;
    }
    if (conn->is_nodelay != on) {
        conn->is_nodelay = on;
        if (setsockopt(conn->source.fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)) == -1) {
            log_info(conn->log, errno, "setsockopt(TCP_NODELAY) failed");
        }
    }
}

/* ---- waiting and idle connections ---- */

bool conn_watch(struct conn *conn)
{
    if (conn->source.fd == -1) {
        return true; /* its transport reports events */
    }
    if (!conn->source.is_registered) {
        if (conn->is_broken) {
            return true; /* the code that broke it calls the owner */
        }
        return conn->is_output_waiting ? event_add(&conn->source) : event_add_input(&conn->source);
    }
    if (conn->is_readable && !conn->is_input_paused && conn->is_input_due == 0) {
        /* The edge-triggered event has passed: call the owner again at the next turn. */
        conn->is_input_due = 1;
        loop_undefer(&conn->flush);
        loop_defer_next(&conn->flush);
    }
    return true;
}

bool conn_resume_input(struct conn *conn)
{
    conn->is_input_paused = 0;
    return conn_watch(conn);
}

bool conn_park(struct conn *conn)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    conn_input_release(conn);
    conn_go_idle(conn);
    return conn->source.fd == -1 || conn_watch(conn);
}

void conn_unpark(struct conn *conn)
{
    if (conn->is_idle) {
        conn->is_idle = 0;
        list_remove(&conn->idle_node);
        conn->input_wait = (struct wait_point){0};
        conn_pool.idle--;
    }
}

struct conn *conn_longest_idle(void)
{
    if (list_is_empty(&idle_conns)) {
        return NULL;
    }
    return container_of(idle_conns.next, struct conn, idle_node);
}

void conn_each_latest_idle(unsigned most, void (*visit)(struct conn *conn, void *arg), void *arg)
{
    struct list *at = idle_conns.prev;

    while (most-- != 0 && at != NULL && at != &idle_conns) {
        struct list *next = at->prev;

        visit(container_of(at, struct conn, idle_node), arg);
        at = next;
    }
}

bool conn_walk(struct conn_walk *walk, size_t count, void (*visit)(struct conn *conn, void *arg),
               void *arg)
{
    if (!walk->has_begun) {
        walk->block = blocks;
        walk->has_begun = true;
    }
    for (; walk->block != NULL && count > 0; count--) {
        struct conn *conn = &walk->block->conns[walk->at++];

        if (walk->at == CONNS_PER_BLOCK) {
            walk->block = walk->block->next;
            walk->at = 0;
        }
        if (conn->magic == CONN_MAGIC) {
            visit(conn, arg);
        }
    }
    return walk->block != NULL;
}

void conn_each(void (*visit)(struct conn *conn, void *arg), void *arg)
{
    struct conn_walk walk = {0};

    conn_walk(&walk, SIZE_MAX, visit, arg);
}
