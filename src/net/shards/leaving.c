/*
 * Sets that no configuration wants any more, while another listener serves their clients: `listen 127.0.0.1:80` that has become
 * `listen *:80`, or the reverse. Closing a listening socket resets what is in its queue and what shakes hands with it, and
 * as long as it is open the kernel prefers it. So its sockets are bound to an interface that does not exist: new
 * connections find the others, while those that have begun still end here, and are accepted by the master.
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

/* Accepts what waits at one socket. */
static void accept_rest(int listening, void (*take)(int fd, const struct addr *local, void *arg),
                        void *arg)
{
    int fd;

    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0 ||
           errno == EINTR || errno == ECONNABORTED) {
        struct addr local = {.len = sizeof(local.un)};

        if (fd < 0) {
            continue;
        }
        if (getsockname(fd, &local.any, &local.len) == 0) {
            take(fd, &local, arg);
        }
        close(fd);
    }
}

/* Has every connection that began with the set come to its queue? Asked before the queue is emptied. */
static bool is_over(const struct shard_set *set)
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

bool shard_sets_leaving(void (*take)(int fd, const struct addr *local, void *arg), void *arg)
{
    struct shard_set **at = &leaving;

    while (*at != NULL) {
        struct shard_set *set = *at;
        bool is_last = is_over(set);

        for (unsigned i = 0; i < set->count; i++) {
            accept_rest(set->fds[i], take, arg);
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
    return leaving != NULL;
}

void shard_sets_leave_at_once(void)
{
    while (leaving != NULL) {
        leave_for_good(&leaving);
    }
}
