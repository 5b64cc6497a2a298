/* Spare sockets: to make one, watch it and close it is most of what a short session of UDP costs.
 */
#include "net/datagram/spare.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn/conn.h"

#define SPARES_MOST                                                                                \
    1024u /* more than the ten milliseconds of rest need at 60,000 sessions a second */
#define SHARE_OF_CONNECTIONS 8 /* no more than this part of worker_connections, either */
/*
 * A datagram that found the socket just before it left its port may still be under way to it, on
 * another processor. So long, and over a turn of the loop at least, it is left alone, and emptied
 * then: what was one client's never reaches another.
 */
#define REST_MS 10
#define KEPT_MS 1000   /* what nobody needs is closed */
#define EMPTY_TRIES 64 /* datagrams that are thrown away for one */

struct spare {
    struct event_source source; /* owned */
    uint64_t since_ms;
    uint64_t turn; /* of the loop, in which it was put here */
};

/* Of one family, in the order of coming. */
struct ring {
    struct spare items[SPARES_MOST];
    unsigned first, count;
};

static struct ring v4, v6;
static struct timer trim;
static bool is_timed; /* trim is made */

static struct ring *ring_of(int family)
{
    return family == AF_INET ? &v4 : family == AF_INET6 ? &v6 : NULL;
}

static void drop_first(struct ring *ring)
{
    struct event_source *source = &ring->items[ring->first].source;

    if (source->fd != -1) {
        event_forget(source);
        close(source->fd);
        source->fd = -1;
    }
    ring->first = (ring->first + 1) % SPARES_MOST;
    ring->count--;
}

/* Throws away what waits in the socket, and errors that do. False: there is always more. */
static bool make_empty(int fd)
{
    char byte;

    for (unsigned i = 0; i < EMPTY_TRIES; i++) {
        if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) == -1 && errno == EAGAIN) {
            return true;
        }
    }
    return false;
}

/* Something came before it had left its port. */
static void spare_ready(struct event_source *source, unsigned events)
{
    make_empty(source->fd);
}

/* ---- its time ---- */

static void trim_ring(struct ring *ring)
{
    while (ring->count != 0 && ring->items[ring->first].since_ms + KEPT_MS <= clock_now.now_ms) {
        drop_first(ring);
    }
}

static void trim_due(struct timer *timer)
{
    trim_ring(&v4);
    trim_ring(&v6);
    if (v4.count + v6.count != 0) {
        timer_set(timer, clock_now.now_ms + KEPT_MS);
    }
}

static void mind_time(void)
{
    if (!is_timed) {
        timer_init(&trim, trim_due);
        is_timed = true;
    }
    if (trim.deadline_ms == NO_DEADLINE) {
        timer_set(&trim, clock_now.now_ms + KEPT_MS);
    }
}

/* ---- the face ---- */

bool datagram_spare_put(int family, struct event_source *source)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct ring *ring = ring_of(family);

    if (!source->is_registered || ring == NULL || ring->count == SPARES_MOST ||
        v4.count + v6.count >= conn_pool.limit / SHARE_OF_CONNECTIONS ||
        connect(source->fd, &nobody, sizeof(nobody)) == -1) {
        return false;
    }
    struct spare *spare = &ring->items[(ring->first + ring->count++) % SPARES_MOST];
    event_source_init(&spare->source, -1, spare_ready);
    event_move(source, &spare->source);
    spare->since_ms = clock_now.now_ms;
    spare->turn = loop_turns();
    mind_time();
    return true;
}

bool datagram_spare_take(int family, struct event_source *to)
{
    struct ring *ring = ring_of(family);

    if (ring == NULL || ring->count == 0) {
        return false;
    }
    struct spare *spare = &ring->items[ring->first];
    if (spare->since_ms + REST_MS > clock_now.now_ms || spare->turn + 1 >= loop_turns()) {
        return false;
    }
    bool is_empty = make_empty(spare->source.fd);
    if (is_empty) {
        event_move(&spare->source, to);
    }
    drop_first(ring);
    return is_empty;
}

void datagram_spares_close(void)
{
    while (v4.count != 0) {
        drop_first(&v4);
    }
    while (v6.count != 0) {
        drop_first(&v6);
    }
    if (is_timed) {
        timer_remove(&trim);
        is_timed = false;
    }
}
