/* The table of connections of this service to itself, in shared memory, without locks. */
#include "net/conn/own.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/shm.h"

/*
 * Pages that are not used take no memory. When a bucket is full, one of its entries is overwritten:
 * that connection's requests count as coming from elsewhere. A loop of requests cannot exploit
 * this.
 */
#define BUCKETS 32768u
#define WAYS 8u /* a cache line */
#define PORTS 65536u

/* An entry, from its high bits: the marks (hash bits) of our end and of the end it leads to, when
 * it was closed, hops. */
#define MARK_BITS 20u
#define CLOSED_BITS 16u /* 0 = the connection is open */
#define HOPS_BITS 8u
#define MARK_MASK ((1u << MARK_BITS) - 1)
#define CLOSED_MASK ((1u << CLOSED_BITS) - 1)
/* The unit of close times, and for how many units a closed entry is still found: 16 of 128 ms,
 * about two seconds. */
#define TICK_MS 128u
#define TICKS_FOUND 16u

struct own {
    _Atomic uint32_t is_used; /* something was added since the start */
    char pad[60];
    _Atomic uint64_t listened[2][PORTS / 64]; /* a bit for each port, of TCP and of UDP; paths of
                                                 unix sockets use a bit by their hash */
    _Alignas(64) _Atomic uint64_t entries[BUCKETS][WAYS];
};

static struct own *own;

bool own_init(void)
{
    if (own == NULL) {
        own = shm_map(sizeof(*own));
    }
    return own != NULL;
}

/* ---- listening addresses ---- */

static unsigned own_bucket_of(const struct addr *addr)
{
    return addr->any.sa_family == AF_UNIX ? str_hash(addr_unix_path(addr)) % PORTS
                                          : addr_port(addr);
}

void own_listens(const struct addr *addr, bool is_datagram)
{
    unsigned position = own_bucket_of(addr);

    if (own != NULL) {
        atomic_fetch_or(&own->listened[is_datagram][position / 64], UINT64_C(1) << position % 64);
    }
}

static bool is_listened(const struct addr *addr, bool is_datagram)
{
    unsigned position = own_bucket_of(addr);

    return own != NULL && (atomic_load_explicit(&own->listened[is_datagram][position / 64],
                                                memory_order_relaxed) >>
                               position % 64 &
                           1) != 0;
}

bool own_may_be(const struct addr *addr)
{
    return is_listened(addr, false);
}

bool own_may_take_datagrams(const struct addr *addr)
{
    return is_listened(addr, true);
}

/* ---- the table ---- */

/* An end of a connection. */
struct end {
    uint64_t hash; /* equal for an IPv4 address and its IPv4-mapped IPv6 form */
    bool has_name;
};

static struct end end_of(const struct addr *addr)
{
    unsigned char key[18] = {0};
    uint16_t port = addr_port(addr);

    switch (addr->any.sa_family) {
    case AF_INET:
        key[10] = key[11] = 0xff; /* as in ::ffff:a.b.c.d */
        memcpy(key + 12, &addr->v4.sin_addr, 4);
        break;
    case AF_INET6:
        memcpy(key, &addr->v6.sin6_addr, 16);
        break;
    case AF_UNIX:
        return (struct end){keyed_hash(addr_unix_path(addr)), addr_unix_path(addr).len != 0};
    default:
        return (struct end){0, false};
    }
    memcpy(key + 16, &port, 2);
    return (struct end){keyed_hash((struct str){(const char *) key, sizeof(key)}), port != 0};
}

static struct end local_end(int fd)
{
    struct addr addr = {.len = sizeof(addr.un)};

    if (getsockname(fd, &addr.any, &addr.len) == -1) {
        return (struct end){0, false};
    }
    return end_of(&addr);
}

/* The far end of a connection to this address. For unix sockets the name of the client's end is
 * sufficient. */
static struct end far_end(const struct addr *addr)
{
    struct addr real = *addr;

    if (addr->any.sa_family == AF_UNIX) {
        return (struct end){0, true};
    }
    if (addr_is_wildcard(addr) && addr->any.sa_family == AF_INET) {
        real.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else if (addr_is_wildcard(addr)) {
        real.v6.sin6_addr = in6addr_loopback;
    }
    return end_of(&real);
}

static uint64_t marks_of(const struct end *from, const struct end *to)
{
    return (from->hash >> (64 - MARK_BITS) << MARK_BITS | to->hash >> (64 - MARK_BITS));
}

static uint64_t marks_in(uint64_t entry)
{
    return entry >> (CLOSED_BITS + HOPS_BITS);
}

static uint64_t entry_of(uint64_t marks, unsigned closed, unsigned hops)
{
    return marks << (CLOSED_BITS + HOPS_BITS) | (uint64_t) closed << HOPS_BITS | hops;
}

/* The current time as entries store it: never 0. */
static unsigned tick_now(void)
{
    return (unsigned) (clock_now.now_ms / TICK_MS % CLOSED_MASK) + 1;
}

/* Was it closed so long ago that it is not looked for any more? */
static bool own_is_over(uint64_t entry)
{
    unsigned closed = (unsigned) (entry >> HOPS_BITS) & CLOSED_MASK;

    return closed != 0 && (tick_now() + CLOSED_MASK - closed) % CLOSED_MASK > TICKS_FOUND;
}

/* The entry with these marks; with `mask` OUR_END only the mark of our end is compared. NULL:
 * none. */
static _Atomic uint64_t *own_entry_find(const struct end *from, uint64_t marks, uint64_t mask)
{
    _Atomic uint64_t *bucket = own->entries[from->hash % BUCKETS];

    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&bucket[i], memory_order_acquire);
        if (entry != 0 && ((marks_in(entry) ^ marks) & mask) == 0) {
            return &bucket[i];
        }
    }
    return NULL;
}

#define BOTH_ENDS UINT64_MAX
#define OUR_END (~(uint64_t) MARK_MASK)

static void own_entry_put(const struct end *from, uint64_t marks, uint64_t entry)
{
    _Atomic uint64_t *bucket = own->entries[from->hash % BUCKETS];
    _Atomic uint64_t *former = own_entry_find(from, marks, BOTH_ENDS);

    if (former != NULL) {
        atomic_store(former, entry); /* the address is in use again */
        return;
    }
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t old = atomic_load(&bucket[i]);
        if ((old == 0 || own_is_over(old)) &&
            atomic_compare_exchange_strong(&bucket[i], &old, entry)) {
            return;
        }
    }
    atomic_store(&bucket[from->hash / BUCKETS % WAYS], entry);
}

/* ---- the ends of connections ---- */

void own_name(int fd, const struct addr *peer)
{
    struct sockaddr none = {.sa_family = AF_UNIX};

    if (peer->any.sa_family == AF_UNIX && bind(fd, &none, sizeof(none.sa_family)) == -1) {
        return; /* it remains without a name */
    }
}

/* Does a connection of this socket to the peer stay on this machine? */
static bool is_at_home(int fd, const struct addr *peer)
{
    struct addr local = {.len = sizeof(local.un)};

    if (peer->any.sa_family == AF_UNIX || addr_is_loopback(peer) || addr_is_wildcard(peer)) {
        return true;
    }
    if (getsockname(fd, &local.any, &local.len) == -1) {
        return false;
    }
    addr_set_port(&local, addr_port(peer));
    return addr_equal(&local, peer);
}

bool own_note(int fd, const struct addr *peer, unsigned hops)
{
    if (own == NULL) {
        return false;
    }
    struct end from = local_end(fd);
    struct end to = far_end(peer);

    if (from.has_name) {
        uint64_t marks = marks_of(&from, &to);
        own_entry_put(&from, marks,
                      entry_of(marks, 0, hops < OWN_HOPS_MOST ? hops : OWN_HOPS_MOST));
        atomic_store(&own->is_used, 1);
    }
    return is_at_home(fd, peer);
}

bool own_note_at_home(int fd, const struct addr *peer, unsigned hops)
{
    return own != NULL && is_at_home(fd, peer) && own_note(fd, peer, hops);
}

static void forget(const struct end *from, const struct addr *peer)
{
    struct end to = far_end(peer);
    uint64_t marks = marks_of(from, &to);
    _Atomic uint64_t *at = from->has_name ? own_entry_find(from, marks, BOTH_ENDS) : NULL;

    if (at != NULL) {
        atomic_store(at, entry_of(marks, tick_now(), atomic_load(at) & OWN_HOPS_MOST));
    }
}

void own_forget(int fd, const struct addr *peer)
{
    struct end from = local_end(fd);

    forget(&from, peer);
}

void own_forget_at(const struct addr *local, const struct addr *peer)
{
    struct end from = end_of(local);

    forget(&from, peer);
}

/* Does the table have an entry with this end? */
static bool is_ours(const struct end *from)
{
    const struct end nowhere = {0, true};

    return own != NULL && atomic_load_explicit(&own->is_used, memory_order_acquire) != 0 &&
           from->has_name && own_entry_find(from, marks_of(from, &nowhere), OUR_END) != NULL;
}

/* The hops of the connection with both these ends. An entry with our end alone may be of a
 * connection to another end. */
static unsigned hops_between(const struct end *from, const struct end *to)
{
    const _Atomic uint64_t *at = own_entry_find(from, marks_of(from, to), BOTH_ENDS);
    uint64_t entry = at == NULL ? 0 : atomic_load(at);

    return own_is_over(entry) ? 0 : (unsigned) (entry & OWN_HOPS_MOST);
}

unsigned own_hops(int fd, const struct addr *peer)
{
    struct end from = end_of(peer);

    if (!is_ours(&from)) {
        return 0;
    }
    struct end to = {0, true};
    if (peer->any.sa_family != AF_UNIX) {
        to = local_end(fd);
    }
    return hops_between(&from, &to);
}

unsigned own_hops_at(const struct addr *local, const struct addr *peer)
{
    struct end from = end_of(peer);

    if (!is_ours(&from)) {
        return 0;
    }
    struct end to = far_end(local);
    return hops_between(&from, &to);
}
