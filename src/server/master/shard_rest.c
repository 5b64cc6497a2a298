/*
 * While no connection comes, the master does not look at the shards: it is woken by the next one. Workers that sleep are
 * woken as if the master were not there, for it waits without EPOLLEXCLUSIVE. Under load it waits for nothing: the epoll
 * instance is closed, and costs no connection anything.
 */
#include "server/master/shard_rest.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/shards/listener.h"
#include "server/master/shard_care.h"

static int rest_fd = -1;

static bool watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(rest_fd, EPOLL_CTL_ADD, fd, &event) == 0;
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

bool shard_rest_begin(const struct generation *generation)
{
    bool is_watched = true;

    shard_rest_end();
    rest_fd = epoll_create1(EPOLL_CLOEXEC);
    for (struct shard_set *set = shard_sets(); rest_fd >= 0 && set != NULL && is_watched;
         set = set->next) {
        is_watched = !shard_care_watches(set) || watch_set(set, generation->slots);
    }
    if (rest_fd < 0 || !is_watched) {
        log_alert(log_main, errno, "the master cannot wait for connections and looks for them");
        shard_rest_end();
        return false;
    }
    return true;
}

void shard_rest_end(void)
{
    if (rest_fd >= 0) {
        close(rest_fd);
        rest_fd = -1;
    }
}

int shard_rest_fd(void)
{
    return rest_fd;
}
