/*
 * Sets that no configuration uses any more while another listener serves their clients: `listen
 * 127.0.0.1:80` became `listen *:80`, or the reverse. Closing a listening socket resets the
 * connections in its queue and its handshakes in progress, and while it is open the kernel prefers
 * it to the wildcard. So its sockets are bound to an interface that does not exist: new connections
 * go to the other listener, while those that have begun still end in this queue, and the process
 * that has the sets accepts them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/shards/handshakes.h"
#include "net/shards/private.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#define LEAVING_MOST_MS 65000 /* no handshake takes longer */

static struct shard_set *leaving;

static bool hide(int fd)
{
    return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &(int){INT_MAX}, sizeof(int)) == 0;
}

/* Does the listener serve clients of the address, which is one of this machine or a wildcard? */
static bool serves(const struct listener *listener, const struct addr *addr)
{
    return !listener->options.is_datagram && listener->addr.any.sa_family == addr->any.sa_family &&
           addr->any.sa_family != AF_UNIX && addr_port(&listener->addr) == addr_port(addr) &&
           (addr_is_wildcard(&listener->addr) || addr_equal(&listener->addr, addr));
}

struct listener *listener_serving(struct listener *listeners, const struct addr *local)
{
    struct listener *found = NULL;

    for (struct listener *l = listeners; l != NULL; l = l->next) {
        if (serves(l, local) && (found == NULL || !addr_is_wildcard(&l->addr))) {
            found = l;
        }
    }
    return found;
}

/* Does any listener serve at least some clients of the set? */
static bool has_successor(const struct shard_set *set, const struct listener *listeners)
{
    for (const struct listener *l = listeners; l != NULL; l = l->next) {
        if (set->addr.any.sa_family != AF_UNIX && l->addr.any.sa_family != AF_UNIX &&
            (serves(l, &set->addr) ||
             (addr_is_wildcard(&set->addr) && addr_port(&l->addr) == addr_port(&set->addr)))) {
            return true;
        }
    }
    return false;
}

bool shard_set_leave(struct shard_set *set)
{
    if (set->options.is_datagram || set->addr.any.sa_family == AF_UNIX) {
        return false;
    }
    for (unsigned i = 0; i < set->count; i++) {
        if (!hide(set->fds[i])) {
            return false;
        }
    }
    shard_set_unlink(set);
    set->leaves_ms = clock_now.now_ms;
    set->handshakes = handshakes_of(&set->addr);
    set->next = leaving;
    leaving = set;
    return true;
}

void shard_set_end(struct shard_set *set, const struct listener *listeners)
{
    if (!has_successor(set, listeners) || !shard_set_leave(set)) {
        shard_set_close(set);
    }
}

/* The last accepted connection, which no worker could take yet. */
static struct {
    int fd; /* -1 = none */
    struct addr local;
} held = {.fd = -1};

static bool give_held(shard_take *take, void *arg)
{
    if (held.fd >= 0 && take(held.fd, &held.local, arg)) {
        close(held.fd);
        held.fd = -1;
    }
    return held.fd < 0;
}

/* Accepts all that waits at one socket. False: no worker can take a connection now. */
static bool accept_rest(int listening, shard_take *take, void *arg)
{
    int fd;

    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0 ||
           errno == EINTR || errno == ECONNABORTED) {
        held.fd = fd;
        held.local.len = sizeof(held.local.un);
        if (fd >= 0 && getsockname(fd, &held.local.any, &held.local.len) != 0) {
            close(fd);
            held.fd = -1;
        }
        if (!give_held(take, arg)) {
            return false;
        }
    }
    return true;
}

static bool accept_rest_of_set(const struct shard_set *set, shard_take *take, void *arg)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (!accept_rest(set->fds[i], take, arg)) {
            return false;
        }
    }
    return true;
}

/* Has every connection that began with the set reached its queue? To be called before the queue is
 * emptied. */
static bool leaving_is_over(const struct shard_set *set)
{
    uint64_t age_ms = clock_now.now_ms - set->leaves_ms;

    return age_ms >= LEAVING_MOST_MS ||
           (set->handshakes != NULL ? !handshakes_go_on(set->handshakes) : age_ms >= 1000);
}

static void leave_for_good(struct shard_set **at)
{
    struct shard_set *set = *at;

    *at = set->next;
    if (set->handshakes != NULL) {
        handshakes_free(set->handshakes);
    }
    while (set->count != 0) {
        close(set->fds[--set->count]);
    }
    shard_set_free(set);
}

bool shard_sets_leaving(shard_take *take, void *arg)
{
    struct shard_set **at = &leaving;

    if (!give_held(take, arg)) {
        return true;
    }
    while (*at != NULL) {
        struct shard_set *set = *at;
        bool is_last = leaving_is_over(set);

        if (!accept_rest_of_set(set, take, arg)) {
            return true;
        }
        if (is_last) {
            leave_for_good(at);
        } else {
            at = &set->next;
        }
    }
    return leaving != NULL;
}

bool shard_address_is_leaving(const struct addr *addr)
{
    for (const struct shard_set *set = leaving; set != NULL; set = set->next) {
        if (addr->any.sa_family != AF_UNIX && addr_port(&set->addr) == addr_port(addr)) {
            return true;
        }
    }
    return false;
}

bool shard_set_is_leaving(void)
{
    return leaving != NULL || held.fd >= 0;
}

void shard_sets_leave_at_once(void)
{
    if (held.fd >= 0) {
        close(held.fd);
        held.fd = -1;
    }
    while (leaving != NULL) {
        leave_for_good(&leaving);
    }
}
