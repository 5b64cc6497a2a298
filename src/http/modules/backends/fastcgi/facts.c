/* Facts about backends: requested once (question.c), after the first successful request; known to
 * all workers. */
#include <stdatomic.h>

#include "base/clock.h"
#include "http/modules/backends/fastcgi/connection.h"

/* The low bits of peer_cell.facts_state; the upper bits are the time at which processes may be
 * looked for again, in units of LOOK_UNIT_MS. */
enum facts_state { FACTS_UNKNOWN, FACTS_ASKED, FACTS_KNOWN, FACTS_MASK };

#define FACTS_BITS 2
#define LOOK_UNIT_MS 64
/* A time further in the future is from before the counter wrapped. */
#define PAUSE_UNITS_MAX 4096

#define MULTIPLEX_MAX 1024 /* requests on one connection, whatever the backend reports */

static bool change_state(struct peer_cell *cell, enum facts_state from, enum facts_state to)
{
    uint32_t expected = from;

    return atomic_compare_exchange_strong(&cell->facts_state, &expected, to);
}

static enum facts_state fastcgi_facts_state_of(const struct peer_cell *cell)
{
    return (enum facts_state)(atomic_load_explicit(&cell->facts_state, memory_order_acquire) &
                              FACTS_MASK);
}

/* ---- the request for facts ---- */

bool fastcgi_facts_are_unknown(const struct peer_cell *cell)
{
    return fastcgi_facts_state_of(cell) == FACTS_UNKNOWN;
}

bool fastcgi_facts_claim(struct peer_cell *cell)
{
    return change_state(cell, FACTS_UNKNOWN, FACTS_ASKED);
}

void fastcgi_facts_release(struct peer_cell *cell)
{
    change_state(cell, FACTS_ASKED, FACTS_UNKNOWN);
}

void fastcgi_facts_settle(struct peer_cell *cell, struct backend_facts facts, unsigned max_conns)
{
    if (facts.connections_max == 0 && !facts.multiplexes) {
        facts.connections_max = max_conns; /* php-fpm does not report it, so max_conns is used */
    }
    atomic_store_explicit(&cell->connections_max, facts.connections_max, memory_order_relaxed);
    atomic_store_explicit(&cell->requests_max,
                          facts.multiplexes || facts.connections_max == 1 ? facts.requests_max : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&cell->multiplexes, facts.multiplexes, memory_order_relaxed);
    atomic_store_explicit(&cell->facts_state, FACTS_KNOWN, memory_order_release);
}

/* ---- use of the facts ---- */

unsigned fastcgi_open_max(const struct exchange *x)
{
    const struct peer *peer = x->pick.peer;
    struct peer_cell *cell = peer->cell;
    unsigned written = peer->server != NULL ? peer->server->max_conns : 0;

    if (fastcgi_settings_of(x)->keep_conn != KEEP_CONN_AUTO || written != 0) {
        return written;
    }
    if (__builtin_expect(fastcgi_facts_are_scarce(cell), 0)) {
        fastcgi_processes_look(x);
    }
    return atomic_load_explicit(&cell->connections_max, memory_order_relaxed);
}

bool fastcgi_facts_keep(const struct peer_cell *cell)
{
    return fastcgi_facts_state_of(cell) == FACTS_KNOWN &&
           (atomic_load_explicit(&cell->connections_max, memory_order_relaxed) != 0 ||
            atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) != 0);
}

bool fastcgi_facts_are_scarce(const struct peer_cell *cell)
{
    return atomic_load_explicit(&cell->connections_max, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) == 0;
}

unsigned fastcgi_facts_users_max(const struct peer_cell *cell)
{
    if (fastcgi_facts_state_of(cell) != FACTS_KNOWN ||
        atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) == 0) {
        return 1;
    }
    uint32_t requests = atomic_load_explicit(&cell->requests_max, memory_order_relaxed);
    return requests == 0 || requests > MULTIPLEX_MAX ? MULTIPLEX_MAX : requests;
}

bool fastcgi_facts_may_look(struct peer_cell *cell, uint64_t pause_ms)
{
    uint32_t now = (uint32_t) (clock_now.now_ms / LOOK_UNIT_MS) & (UINT32_MAX >> FACTS_BITS);
    uint32_t next = now + (uint32_t) (pause_ms / LOOK_UNIT_MS);
    uint32_t before = atomic_load_explicit(&cell->facts_state, memory_order_relaxed);
    uint32_t due = before >> FACTS_BITS;

    if (pause_ms != 0 && due > now && due - now <= PAUSE_UNITS_MAX) {
        return false;
    }
    return atomic_compare_exchange_strong(&cell->facts_state, &before,
                                          next << FACTS_BITS | (before & FACTS_MASK));
}

void fastcgi_facts_no_multiplexing(struct peer_cell *cell)
{
    atomic_store_explicit(&cell->multiplexes, 0, memory_order_relaxed);
}
