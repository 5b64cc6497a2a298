/*
 * While no connection comes, the master does not check the listening sockets every 25 ms
 * (shard_care_look): an epoll instance with all of them wakes it when one comes. It watches without
 * EPOLLEXCLUSIVE, so the kernel wakes a worker as well. Under load the instance is closed: it would
 * cost something for each connection.
 */
#include "server/master/shard_idle.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/shards/listener.h"
#include "server/master/shard_care.h"

static int idle_fd = -1;

static bool watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(idle_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool watch_set(const struct shard_set *set, unsigned slots)
{
    for (unsigned slot = 0; slot < set->count && slot < slots; slot++) {
        if (set->fds[slot] >= 0 && !watch(set->fds[slot])) {
            return false;
        }
    }
    return true;
}

bool shard_idle_begin(const struct generation *generation)
{
    bool is_watched = true;

    shard_idle_end();
    idle_fd = epoll_create1(EPOLL_CLOEXEC);
    for (struct shard_set *set = shard_sets(); idle_fd >= 0 && set != NULL && is_watched;
         set = set->next) {
        is_watched = !shard_care_watches(set) || watch_set(set, generation->slots);
    }
    if (idle_fd < 0 || !is_watched) {
        log_alert(log_main, errno, "the master cannot wait for connections and looks for them");
        shard_idle_end();
        return false;
    }
    return true;
}

void shard_idle_end(void)
{
    if (idle_fd >= 0) {
        close(idle_fd);
        idle_fd = -1;
    }
}

int shard_idle_fd(void)
{
    return idle_fd;
}
