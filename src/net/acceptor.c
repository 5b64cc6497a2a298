/* Accepting: this worker's own sockets, those it adopted, and what happens when room runs out. */
#define _GNU_SOURCE
#include "net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn.h"
#include "net/handshakes.h"

#define BURST_MOST 16      /* accepted in one turn without multi_accept */
#define BURST_CONFIDENT 4u /* from here on more are believed to wait */
#define BURST_SURE 7u
#define BURST_PROBE 16u /* one event in so many tries for a second one */
#define PAUSE_MS 500    /* the longest pause; the end of a connection ends it sooner */
#define REFUSE_MS 10000 /* after a pause that nothing ended: clients that find no room are closed */
#define LOG_EVERY_MS 1000
#define IDLE_LOOKS_MOST 32 /* at connections, for one that can give way */
#define RETIRE_TICK_MS 50
#define RETIRE_QUIET_MS 1000 /* without accepts, when the kernel tells nothing of handshakes */
#define RETIRE_MOST_MS 65000 /* no handshake takes longer */

/* A socket from which this worker accepts: its own slot's, or one that it adopted. */
struct acceptor {
    struct acceptor *next;
    struct event_source source;
    struct listener *listener;
    unsigned slot;
    bool is_adopted;     /* source.fd is owned */
    bool is_shared;      /* other processes accept from it as well */
    unsigned confidence; /* that a second connection waits behind the first; saturates */
    unsigned probe;      /* events since it was last tried against experience */

    /*
     * Of a retired slot's socket, which is closed when it is empty and no handshake is under way.
     */
    bool is_retiring;
    struct timer retire;      /* the next look */
    uint64_t retire_since_ms; /* when it was adopted */
    uint64_t last_accept_ms;
    struct handshakes *under_way; /* those that began before; NULL = not asked yet or unknown */
    uint64_t asked_ms;
    bool has_asked;
    void (*done)(void *); /* told when it is closed; or NULL */
    void *done_arg;
};

static struct acceptor *acceptors;
static struct accept_options accept_options;
static bool is_paused;
static uint64_t stops; /* times that acceptors went away: a walk notices */
static struct timer pause_timer;
static uint64_t paused_in_vain_ms; /* when a pause ran to its end last; 0 = never */
/* When running short was logged last. */
static uint64_t logged_connections_ms;
static uint64_t logged_accept_ms;

/* Has the client spoken, and the loop not come to it yet? */
static bool has_unread_input(const struct conn *conn)
{
    char byte;

    return recv(conn->source.fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The connection that rests longest and is not about to be served; NULL = none, or none soon. */
static struct conn *find_longest_idle(void)
{
    for (int i = 0; i < IDLE_LOOKS_MOST; i++) {
        struct conn *conn = conn_longest_idle();

        if (conn == NULL || !has_unread_input(conn)) {
            return conn;
        }
        conn_unpark(conn);
        if (!conn_park(conn)) {
            return NULL;
        }
    }
    return NULL;
}

static bool longest_idle_gives_way(void)
{
    struct conn *conn = find_longest_idle();

    if (conn == NULL) {
        return false;
    }
    uint32_t life = conn->life;
    conn_pool.given_way++;
    if (conn->owner->timed_out != NULL) {
        conn->owner->timed_out(conn);
    }
    if (conn->life == life) {
        conn_close(conn);
    }
    return true;
}

bool (*acceptors_make_room)(void) = longest_idle_gives_way;

/* ---- running short ---- */

static bool watch(struct acceptor *acceptor)
{
    return event_add_listener(&acceptor->source, acceptor->is_shared);
}

void acceptors_resume(void)
{
    if (!is_paused) {
        return;
    }
    is_paused = false;
    timer_clear(&pause_timer);
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        if (!watch(acceptor)) {
            log_alert(acceptor->listener->log, errno, "epoll_ctl() failed for %.*s",
                      STR_ARG(acceptor->listener->text));
        }
    }
}

static void pause_is_over(struct timer *timer)
{
    (void) timer;
    paused_in_vain_ms = clock_now.now_ms;
    acceptors_resume();
}

static void pause_accepting(void)
{
    if (is_paused) {
        return;
    }
    is_paused = true;
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        event_remove(&acceptor->source);
    }
    if (pause_timer.fire == NULL) {
        timer_init(&pause_timer, pause_is_over);
    }
    timer_set(&pause_timer, clock_now.now_ms + PAUSE_MS);
}

/* Whether it is time to log about running short again; notes that it was done. */
static bool may_log(uint64_t *logged_ms)
{
    if (*logged_ms != 0 && clock_now.now_ms - *logged_ms < LOG_EVERY_MS) {
        return false;
    }
    *logged_ms = clock_now.now_ms;
    return true;
}

/*
 * The limit of connections is reached: somebody idle gives way. Where nobody can, clients wait in the kernel's queue
 * for the next that leaves, but not for long: if those that hold all the connections wait for the one that does not
 * come in (a backend that is this server), or never leave, the next ones are closed at once, as nginx does.
 */
static bool make_room_for_connection(const struct listener *listener)
{
    bool has_room = acceptors_make_room() && conn_pool.used < conn_pool.limit;

    if (may_log(&logged_connections_ms)) {
        log_at(listener->log, has_room ? LOG_WARN : LOG_ALERT, 0,
               "%u worker_connections are not enough%s", conn_pool.limit,
               has_room ? ", reusing connections" : "");
    }
    return has_room;
}

/* accept4 failed. Gives whether it is to be tried again at once. */
static bool accept_failed(struct acceptor *acceptor, int error)
{
    const struct listener *listener = acceptor->listener;
    bool is_short = error == EMFILE || error == ENFILE;

    switch (error) {
    case EAGAIN:
        return false;
    case EINTR:
        return true;
    case EINVAL:
        /* The socket of a slot that was retired meanwhile (shard_close_top): none will ever come.
         */
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
        /* The fault of one connection, which is gone. */
        log_error(listener->log, error, "accept4() failed");
        return true;
    case EBADF:
        /* The socket was ended elsewhere; the others go on. */
        log_alert(listener->log, error, "accept4() failed on slot %u", acceptor->slot);
        event_remove(&acceptor->source);
        return false;
    default:
        break;
    }
    if (may_log(&logged_accept_ms)) {
        log_at(listener->log, is_short ? LOG_CRIT : LOG_ALERT, error, "accept4() failed");
    }
    if (is_short && acceptors_make_room()) {
        return true;
    }
    pause_accepting();
    return false;
}

/* Are clients that find no room closed now? Else accepting pauses. */
static bool refuses_now(void)
{
    if (paused_in_vain_ms != 0 && clock_now.now_ms - paused_in_vain_ms < REFUSE_MS) {
        return true;
    }
    pause_accepting();
    return false;
}

/* ---- accepting ---- */

/* Whether to try for one more after `n` successes in this turn. */
static bool wants_another(struct acceptor *acceptor, unsigned n)
{
    if (acceptor->is_retiring || accept_options.multi_accept) {
        return true;
    }
    if (acceptor->is_shared || n >= BURST_MOST) {
        return false;
    }
    if (n > 1) {
        acceptor->confidence += acceptor->confidence < BURST_SURE;
        return true;
    }
    return acceptor->confidence >= BURST_CONFIDENT || ++acceptor->probe % BURST_PROBE == 0;
}

static void acceptor_ready(struct event_source *source, unsigned events)
{
    struct acceptor *acceptor = container_of(source, struct acceptor, source);
    struct listener *listener = acceptor->listener;
    uint64_t stops_before = stops;
    unsigned n = 0;

    (void) events;
    do {
        struct addr peer;

        bool has_room = conn_pool.used < conn_pool.limit || make_room_for_connection(listener);
        if (!has_room && !refuses_now()) {
            return;
        }
        peer.len = sizeof(peer.un);
        int fd = accept4(source->fd, &peer.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd == -1) {
            if (errno == EAGAIN && n == 1 && !accept_options.multi_accept) {
                acceptor->confidence -= acceptor->confidence > 0;
            }
            if (accept_failed(acceptor, errno)) {
                continue;
            }
            return;
        }
        n++;
        if (acceptor->is_retiring) {
            acceptor->last_accept_ms = clock_now.now_ms;
        }
        conn_pool.refused += !has_room;
        listener->accepted(listener, fd, &peer);
        /* The callback may have stopped or returned this very acceptor. */
    } while (stops == stops_before && !is_paused && wants_another(acceptor, n));
}

static struct acceptor *acceptor_new(struct listener *listener, unsigned slot, int fd)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor));

    if (acceptor == NULL) {
        return NULL;
    }
    event_source_init(&acceptor->source, fd, acceptor_ready);
    acceptor->listener = listener;
    acceptor->slot = slot;
    acceptor->next = acceptors;
    acceptors = acceptor;
    return acceptor;
}

static void acceptor_free(struct acceptor *acceptor)
{
    struct acceptor **link = &acceptors;

    while (*link != acceptor) {
        link = &(*link)->next;
    }
    *link = acceptor->next;
    stops++;
    event_remove(&acceptor->source);
    if (acceptor->is_retiring) {
        timer_remove(&acceptor->retire);
        handshakes_free(acceptor->under_way);
    }
    if (acceptor->is_adopted) {
        close(acceptor->source.fd);
    }
    free(acceptor);
}

bool acceptors_start(struct listener *listeners, unsigned slot,
                     const struct accept_options *options)
{
    accept_options = *options;
    for (struct listener *listener = listeners; listener != NULL; listener = listener->next) {
        const struct shard_set *set = listener->shards;
        int fd = set == NULL ? -1 : shard_fd(set, slot);

        if (fd == -1) {
            continue;
        }
        struct acceptor *acceptor = acceptor_new(listener, slot, fd);
        if (acceptor == NULL) {
            log_emerg(listener->log, ENOMEM, "could not accept on %.*s", STR_ARG(listener->text));
            return false;
        }
        acceptor->is_shared = options->is_shared || !set->is_sharded;
        if (!is_paused && !watch(acceptor)) {
            log_emerg(listener->log, errno, "epoll_ctl() failed for %.*s", STR_ARG(listener->text));
            acceptor_free(acceptor);
            return false;
        }
    }
    return true;
}

void acceptors_stop(void)
{
    struct acceptor *next;

    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = next) {
        next = acceptor->next;
        acceptor_free(acceptor);
    }
    is_paused = false;
    logged_connections_ms = logged_accept_ms = paused_in_vain_ms = 0;
    if (pause_timer.fire != NULL) {
        timer_remove(&pause_timer);
    }
}

/* ---- adopted sockets ---- */

/* The socket is empty; the master ends it when it hears of that. */
static void retire(struct acceptor *acceptor)
{
    void (*done)(void *) = acceptor->done;
    void *arg = acceptor->done_arg;

    acceptor_free(acceptor);
    if (done != NULL) {
        done(arg);
    }
}

/*
 * Those of this turn: several slots of an address retire together, and to ask takes the kernel some
 * 20 ms where its tables are large.
 */
static struct handshakes *handshakes_now(const struct acceptor *acceptor)
{
    for (const struct acceptor *other = acceptors; other != NULL; other = other->next) {
        if (other != acceptor && other->has_asked && other->asked_ms == clock_now.now_ms &&
            addr_equal(&other->listener->addr, &acceptor->listener->addr)) {
            return handshakes_share(other->under_way);
        }
    }
    return handshakes_of(&acceptor->listener->addr);
}

static bool is_empty_for_good(struct acceptor *acceptor)
{
    uint64_t now = clock_now.now_ms;

    if (now - acceptor->retire_since_ms >= RETIRE_MOST_MS) {
        return true;
    }
    if (!acceptor->has_asked) {
        /* Some time after the steering, so that no processor uses the former program any more. */
        acceptor->has_asked = true;
        acceptor->asked_ms = now;
        acceptor->under_way = handshakes_now(acceptor);
        return false;
    }
    /* Handshakes first: one that ends between the two looks is seen in the queue. */
    if (acceptor->under_way == NULL ? now - acceptor->last_accept_ms < RETIRE_QUIET_MS
                                    : handshakes_go_on(acceptor->under_way)) {
        return false;
    }
    return shard_backlog(acceptor->source.fd) == 0;
}

static void retire_tick(struct timer *timer)
{
    struct acceptor *acceptor = container_of(timer, struct acceptor, retire);

    if (is_empty_for_good(acceptor)) {
        retire(acceptor);
    } else {
        timer_set(timer, clock_now.now_ms + RETIRE_TICK_MS);
    }
}

bool acceptor_adopt(struct listener *listener, unsigned slot, int fd, bool is_retiring,
                    void (*done)(void *), void *arg)
{
    struct acceptor *acceptor = acceptor_new(listener, slot, fd);

    if (acceptor == NULL) {
        close(fd);
        errno = ENOMEM;
        return false;
    }
    acceptor->is_adopted = true;
    /* A neighbour that turns again may accept from it, too; level-triggered, so both may look. */
    acceptor->is_shared = !is_retiring;
    acceptor->done = done;
    acceptor->done_arg = arg;
    if (is_retiring) {
        acceptor->is_retiring = true;
        acceptor->retire_since_ms = acceptor->last_accept_ms = clock_now.now_ms;
        timer_init(&acceptor->retire, retire_tick);
        timer_set(&acceptor->retire, clock_now.now_ms + RETIRE_TICK_MS);
    }
    if (!is_paused && !watch(acceptor)) {
        int error = errno;

        acceptor_free(acceptor);
        errno = error;
        return false;
    }
    return true;
}

void acceptor_return(struct listener *listener, unsigned slot)
{
    for (struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        if (acceptor->is_adopted && acceptor->slot == slot && acceptor->listener == listener) {
            acceptor_free(acceptor);
            return;
        }
    }
}

unsigned acceptors_retiring(void)
{
    unsigned n = 0;

    for (const struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        n += acceptor->is_retiring;
    }
    return n;
}
