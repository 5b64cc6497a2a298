/*
 * Short connections by the thousand: whoever connects wakes a worker, which accepts, sleeps, and is woken for the next
 * one. What a wake-up costs falls on the one that wakes, too: on the kernel's receiving side, or on a client on this
 * machine. So a worker that has accepted rests for the time of some connections before it looks again, and meets
 * together what has come. It does so only while connections come faster than the rest is long, and while so many are
 * open that none of their clients waits for this worker alone, and answers them by itself: where backends are asked,
 * the next answer is what clients wait for. docs/decisions.md has the figures.
 */
#include "net/shards/rest.h"

#include "base/clock.h"
#include "event/loop.h"
#include "net/conn/conn.h"

#define REST_US 100      /* the kernel adds up to 50 */
#define WINDOW_MS 50     /* over which accepts are counted */
#define ACCEPTS_PER_MS 2 /* at least */
#define OPEN_LEAST 32    /* connections; beyond what comes in a rest many times over */
#define BACKENDS_SHARE 8 /* busy connections to backends are a smaller part of these */

static struct {
    uint64_t began_ms; /* the window */
    uint64_t accepts;  /* in it */
    bool pays;         /* by the window before */
} window;

bool rest_pays(uint64_t accepts, uint64_t ms, uint32_t open, uint32_t backends)
{
    return accepts >= ACCEPTS_PER_MS * ms && open >= OPEN_LEAST && backends < open / BACKENDS_SHARE;
}

void rest_after(unsigned n)
{
    uint64_t ms = clock_now.now_ms - window.began_ms;

    window.accepts += n;
    if (ms >= WINDOW_MS) {
        window.pays = rest_pays(window.accepts, ms, conn_pool.used, conn_pool.backends);
        window.began_ms = clock_now.now_ms;
        window.accepts = 0;
    }
    if (window.pays) {
        loop_rest(REST_US);
    }
}
