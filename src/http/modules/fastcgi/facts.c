/* What backends say of themselves: asked for once, by the first request to a peer, in front of its own BEGIN_REQUEST
 * (FCGI_GET_VALUES); known to all workers. */
#include <stdatomic.h>

#include "base/clock.h"
#include "http/modules/fastcgi/link.h"

/* The low bits of peer_cell.facts_state; above them stands when processes may be looked for again, in units of
 * LOOK_UNIT_MS. */
enum facts_state { FACTS_UNKNOWN, FACTS_ASKED, FACTS_KNOWN, FACTS_MASK };

#define FACTS_BITS 2
#define LOOK_UNIT_MS 64
#define PAUSE_UNITS_MAX 4096 /* what is further in the future is from before the counter's turn */

#define ANSWER_AWAITED_MS 250 /* how long other requests wait for the answer */
#define LOOK_EVERY_MS 4       /* the one that asks may be in another worker */
#define MULTIPLEX_MAX 1024    /* requests on one connection, whatever the backend says */

static bool change_state(struct peer_cell *cell, enum facts_state from, enum facts_state to)
{
    uint32_t expected = from;

    return atomic_compare_exchange_strong(&cell->facts_state, &expected, to);
}

static enum facts_state state_of(const struct peer_cell *cell)
{
    return (enum facts_state)(atomic_load_explicit(&cell->facts_state, memory_order_acquire) &
                              FACTS_MASK);
}

/* ---- the one that asks ---- */

void fastcgi_facts_release(struct fastcgi_stream *stream)
{
    if (stream->claimed != NULL) {
        change_state(stream->claimed, FACTS_ASKED, FACTS_UNKNOWN);
        stream->claimed = NULL;
    }
}

static void request_freed(void *arg)
{
    fastcgi_facts_release(arg);
}

static bool claim(struct fastcgi_stream *stream, struct peer_cell *cell)
{
    if (!change_state(cell, FACTS_UNKNOWN, FACTS_ASKED)) {
        return false;
    }
    stream->claimed = cell;
    if (!stream->is_claim_guarded) {
        stream->is_claim_guarded = true;
        arena_on_free(&stream->x->request->arena, request_freed, stream);
    }
    return true;
}

void fastcgi_facts_settle(struct fastcgi_stream *stream, struct backend_facts facts)
{
    struct peer_cell *cell = stream->link->link->cell;
    const struct peer *peer = stream->x->pick.peer;

    if (facts.connections_max == 0 && !facts.multiplexes && peer != NULL) {
        facts.connections_max =
            peer->server->max_conns; /* what php-fpm does not say, we were told */
    }
    atomic_store_explicit(&cell->connections_max, facts.connections_max, memory_order_relaxed);
    atomic_store_explicit(&cell->requests_max,
                          facts.multiplexes || facts.connections_max == 1 ? facts.requests_max : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&cell->multiplexes, facts.multiplexes, memory_order_relaxed);
    atomic_store_explicit(&cell->facts_state, FACTS_KNOWN, memory_order_release);
    stream->claimed = NULL;
}

/* ---- the others ---- */

/* Until somebody's answer is there. MAY WAIT. */
static void await(struct peer_cell *cell)
{
    uint64_t deadline_ms = clock_now.now_ms + ANSWER_AWAITED_MS;

    while (state_of(cell) == FACTS_ASKED) {
        if (clock_now.now_ms >= deadline_ms) {
            /* An answer that comes yet is taken; meanwhile nobody waits again. */
            change_state(cell, FACTS_ASKED, FACTS_KNOWN);
            return;
        }
        if (fiber_sleep(clock_now.now_ms + LOOK_EVERY_MS) == WAIT_CANCELLED) {
            return;
        }
    }
}

unsigned fastcgi_open_max(const struct exchange *x)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);
    const struct peer *peer = x->pick.peer;
    struct peer_cell *cell = peer->cell;
    unsigned written = peer->server != NULL ? peer->server->max_conns : 0;

    if (fastcgi_settings_of(x)->keep_conn != KEEP_CONN_AUTO) {
        return written;
    }
    if (__builtin_expect(state_of(cell) != FACTS_KNOWN, 0)) {
        stream->x = (struct exchange *) x;
        if (stream->claimed != cell) {
            fastcgi_facts_release(stream);
            while (state_of(cell) != FACTS_KNOWN && !claim(stream, cell)) {
                await(cell);
                if (fiber_is_cancelled()) {
                    break;
                }
            }
        }
    }
    if (written != 0) {
        return written;
    }
    if (__builtin_expect(fastcgi_facts_are_scarce(cell), 0)) {
        fastcgi_processes_look(x);
    }
    return atomic_load_explicit(&cell->connections_max, memory_order_relaxed);
}

bool fastcgi_facts_keep(const struct peer_cell *cell)
{
    return state_of(cell) == FACTS_KNOWN &&
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
    if (state_of(cell) != FACTS_KNOWN ||
        atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) == 0) {
        return 1;
    }
    uint32_t told = atomic_load_explicit(&cell->requests_max, memory_order_relaxed);
    return told == 0 || told > MULTIPLEX_MAX ? MULTIPLEX_MAX : told;
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
