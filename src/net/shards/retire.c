/* Ends a slot's socket: empties it, and closes it when no handshake is in progress. */
#include "net/shards/retire.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/shards/acceptor.h"
#include "net/shards/handshakes.h"

#define RETIRE_TICK_MS 50
#define RETIRE_QUIET_MS 1000 /* without accepts, when the kernel does not report handshakes */
#define RETIRE_MOST_MS 65000 /* no handshake takes longer */

struct retirement {
    struct acceptor *acceptor;
    struct timer tick; /* the next check */
    uint64_t since_ms; /* when it was adopted */
    uint64_t last_accept_ms;
    /* Handshakes that began before; NULL = not asked yet, or unknown. */
    struct handshakes *under_way;
    uint64_t asked_ms;    /* 0 = not yet */
    void (*done)(void *); /* called after it was closed */
    void *done_arg;
};

/*
 * The handshakes with the address, queried once a turn: several slots of an address retire
 * together, and a query takes the kernel some 20 ms if its tables are large.
 */
static struct handshakes *handshakes_now(const struct retirement *retirement)
{
    const struct addr *addr = &retirement->acceptor->listener->addr;

    for (const struct acceptor *other = acceptors; other != NULL; other = other->next) {
        const struct retirement *found = other->retirement;

        if (found != NULL && found != retirement && found->asked_ms == clock_now.now_ms &&
            addr_equal(&other->listener->addr, addr)) {
            return handshakes_share(found->under_way);
        }
    }
    return handshakes_of(addr);
}

static bool is_empty_for_good(struct retirement *retirement)
{
    uint64_t now = clock_now.now_ms;

    if (now - retirement->since_ms >= RETIRE_MOST_MS) {
        return true;
    }
    if (retirement->asked_ms == 0) {
        /* Some time after the steering, when no processor runs the former program any more. */
        retirement->under_way = handshakes_now(retirement);
        retirement->asked_ms = now;
        return false;
    }
    /* Handshakes first: one that ends between the two checks is then seen in the queue. */
    if (retirement->under_way == NULL ? now - retirement->last_accept_ms < RETIRE_QUIET_MS
                                      : handshakes_go_on(retirement->under_way)) {
        return false;
    }
    return shard_backlog(retirement->acceptor->source.fd) == 0;
}

/* The socket is empty; done() informs the master, which closes its descriptor. */
static void retire(struct retirement *retirement)
{
    void (*done)(void *) = retirement->done;
    void *arg = retirement->done_arg;

    acceptor_free(retirement->acceptor);
    done(arg);
}

static void retire_tick(struct timer *timer)
{
    struct retirement *retirement = container_of(timer, struct retirement, tick);

    if (is_empty_for_good(retirement)) {
        retire(retirement);
    } else {
        timer_set(timer, clock_now.now_ms + RETIRE_TICK_MS);
    }
}

static struct retirement *retirement_new(struct acceptor *acceptor, void (*done)(void *), void *arg)
{
    struct retirement *retirement = calloc(1, sizeof(*retirement));

    if (retirement == NULL) {
        fatal_no_memory(sizeof(*retirement));
    }
    retirement->acceptor = acceptor;
    retirement->since_ms = retirement->last_accept_ms = clock_now.now_ms;
    retirement->done = done;
    retirement->done_arg = arg;
    timer_init(&retirement->tick, retire_tick);
    timer_set(&retirement->tick, clock_now.now_ms + RETIRE_TICK_MS);
    return retirement;
}

void retirement_accepted(struct retirement *retirement)
{
    retirement->last_accept_ms = clock_now.now_ms;
}

void retirement_free(struct retirement *retirement)
{
    timer_remove(&retirement->tick);
    handshakes_free(retirement->under_way);
    free(retirement);
}

bool acceptor_adopt(struct listener *listener, unsigned slot, int fd, void (*done)(void *),
                    void *arg)
{
    CHECK_MAGIC(listener, LISTENER_MAGIC);
    struct acceptor *acceptor = acceptor_new(listener, ACCEPTOR_RETIRED, slot, fd);

    if (acceptor == NULL) {
        close(fd);
        errno = ENOMEM;
        return false;
    }
    acceptor->retirement = retirement_new(acceptor, done, arg);
    if (!acceptor_watch(acceptor)) {
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
        if (acceptor->retirement != NULL && acceptor->slot == slot &&
            acceptor->listener == listener) {
            acceptor_free(acceptor);
            return;
        }
    }
}

unsigned acceptors_retiring(void)
{
    unsigned n = 0;

    for (const struct acceptor *acceptor = acceptors; acceptor != NULL; acceptor = acceptor->next) {
        n += acceptor->retirement != NULL;
    }
    return n;
}
