/* When connections or descriptors run out: closes idle connections, pauses accepting, or refuses
 * clients. */
#include "net/shards/capacity.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/conn/conn.h"
#include "net/shards/acceptor.h"
#include "net/shards/placement.h"
#include "net/shards/slots.h"

#define PAUSE_MS 500 /* the longest pause; the end of a connection ends it sooner */
/* After a pause that nothing ended, clients without a free connection are refused. */
#define REFUSE_MS 10000
#define LOG_EVERY_MS 1000
#define IDLE_LOOKS_MOST 32 /* connections looked at for one that can be closed */

static bool is_paused;
static unsigned own_slot;
static unsigned slots; /* of the generation */
static struct timer pause_timer;
static uint64_t paused_in_vain_ms; /* when a pause last ran to its end; 0 = never */
/* When the shortage was last logged. */
static uint64_t logged_connections_ms;
static uint64_t logged_accept_ms;

/* Has the client sent something that the loop has not handled yet? */
static bool has_unread_input(const struct conn *conn)
{
    char byte;

    return recv(conn->source.fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The connection that was idle for longest and has no unread input; NULL = none, or none found
 * soon. */
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

/* ---- pauses ---- */

bool capacity_is_paused(void)
{
    return is_paused;
}

static bool sibling_has_room(void)
{
    return slots > 1 && shard_slot_sibling_has_room(own_slot, slots);
}

/* While siblings have free connections they accept all, until a sixteenth is free here: otherwise
 * workers would compete for each single connection. */
static bool may_resume(void)
{
    return conn_pool.limit - conn_pool.used > conn_pool.limit / 16 || !sibling_has_room();
}

static void set_paused(bool pauses)
{
    is_paused = pauses;
    atomic_store_explicit(&shard_slot(own_slot)->is_full, pauses, memory_order_relaxed);
}

static void resume(void)
{
    if (!is_paused || !may_resume()) {
        return;
    }
    set_paused(false);
    conn_pool.freed = NULL;
    timer_clear(&pause_timer);
    placement_set_full(false);
    acceptors_watch();
}

static void pause_is_over(struct timer *timer)
{
    if (conn_pool.used >= conn_pool.limit) {
        paused_in_vain_ms = clock_now.now_ms;
    }
    resume();
    if (is_paused) {
        timer_set(timer, clock_now.now_ms + PAUSE_MS);
    }
}

static void pause_accepting(void)
{
    if (is_paused) {
        return;
    }
    set_paused(true);
    conn_pool.freed = resume;
    acceptors_unwatch();
    placement_set_full(true);
    timer_set(&pause_timer, clock_now.now_ms + PAUSE_MS);
}

void capacity_begin(unsigned slot, unsigned count)
{
    own_slot = slot;
    slots = count;
    if (pause_timer.fire == NULL) {
        timer_init(&pause_timer, pause_is_over);
    }
}

void capacity_end(void)
{
    if (is_paused) {
        set_paused(false);
    }
    conn_pool.freed = NULL;
    logged_connections_ms = logged_accept_ms = paused_in_vain_ms = 0;
    if (pause_timer.fire != NULL) {
        timer_remove(&pause_timer);
    }
}

/* ---- shortage ---- */

/* May the shortage be logged again? Records the time if so. */
static bool may_log(uint64_t *logged_ms)
{
    if (*logged_ms != 0 && clock_now.now_ms - *logged_ms < LOG_EVERY_MS) {
        return false;
    }
    *logged_ms = clock_now.now_ms;
    return true;
}

void capacity_taken(void)
{
    if (conn_pool.used >= conn_pool.limit && sibling_has_room()) {
        pause_accepting();
    }
}

/*
 * Closes an idle connection. If there is none, clients wait in the kernel's queue until a
 * connection ends, but not for long: the connections in use may wait for just the client that is
 * not accepted (a backend that is this server), or never end. After that new clients are refused,
 * as nginx does, unless a sibling has free connections, to which the master points out the socket.
 */
bool capacity_make(const struct listener *listener, bool *has_room)
{
    *has_room = acceptors_make_room() && conn_pool.used < conn_pool.limit;
    if (may_log(&logged_connections_ms)) {
        log_at(listener->log, *has_room ? LOG_WARN : LOG_ALERT, 0,
               "%u worker_connections are not enough%s", conn_pool.limit,
               *has_room ? ", reusing connections" : "");
    }
    if (*has_room) {
        return true;
    }
    if (paused_in_vain_ms != 0 && clock_now.now_ms - paused_in_vain_ms < REFUSE_MS &&
        !sibling_has_room()) {
        return true;
    }
    pause_accepting();
    return false;
}

bool capacity_made_for_descriptor(const struct listener *listener, int error)
{
    bool is_short = error == EMFILE || error == ENFILE;

    if (may_log(&logged_accept_ms)) {
        log_at(listener->log, is_short ? LOG_CRIT : LOG_ALERT, error, "accept4() failed");
    }
    if (is_short && acceptors_make_room()) {
        return true;
    }
    pause_accepting();
    return false;
}
