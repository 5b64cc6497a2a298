/* Groups of workers: created and maintained by the master, found by workers after the fork. */
#include "net/shards/placement_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/shm.h"

/* All groups of one generation. */
struct placement_set {
    struct placement_set *next;
    uint32_t generation;
    unsigned size; /* slots of a group */
    unsigned count;
    struct placement_handle handles[];
};

static struct placement_set *sets;

unsigned placement_group_size(unsigned slots)
{
    unsigned groups = (slots + PLACEMENT_GROUP_MOST - 1) / PLACEMENT_GROUP_MOST;

    return groups == 0 ? 1 : (slots + groups - 1) / groups;
}

static void close_open(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void handle_close(struct placement_handle *handle)
{
    if (handle->group != NULL) {
        munmap(handle->group, sizeof(*handle->group));
        handle->group = NULL;
    }
    close_open(&handle->call_fd);
    close_open(&handle->timer_fd);
    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        close_open(&handle->mailboxes[i][0]);
        close_open(&handle->mailboxes[i][1]);
    }
}

static bool handle_open(struct placement_handle *handle, unsigned members)
{
    memset(handle->mailboxes, -1, sizeof(handle->mailboxes));
    handle->group = shm_map(sizeof(*handle->group));
    handle->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    handle->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (handle->group == NULL || handle->call_fd < 0 || handle->timer_fd < 0) {
        return false;
    }
    for (unsigned i = 0; i < members; i++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                       handle->mailboxes[i]) != 0) {
            return false;
        }
    }
    return true;
}

static void set_free(struct placement_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        handle_close(&set->handles[i]);
    }
    free(set);
}

static struct placement_set *set_find(uint32_t generation)
{
    struct placement_set *set = sets;

    while (set != NULL && set->generation != generation) {
        set = set->next;
    }
    return set;
}

void placement_open(uint32_t generation, unsigned slots)
{
    unsigned size = placement_group_size(slots);
    unsigned count = (slots + size - 1) / size;

    if (slots < 2 || set_find(generation) != NULL) {
        return;
    }
    struct placement_set *set = calloc(1, sizeof(*set) + count * sizeof(*set->handles));
    if (set == NULL) {
        fatal_no_memory(sizeof(*set));
    }
    set->generation = generation;
    set->size = size;
    for (; set->count < count; set->count++) {
        if (!handle_open(&set->handles[set->count], size)) {
            log_alert(log_main, errno,
                      "could not create the shared state for accepting; all workers accept");
            set->count++;
            set_free(set);
            return;
        }
    }
    set->next = sets;
    sets = set;
}

void placement_close_before(uint32_t generation)
{
    struct placement_set **at = &sets;

    while (*at != NULL) {
        struct placement_set *set = *at;

        if (set->generation == generation) {
            at = &set->next;
        } else {
            *at = set->next;
            set_free(set);
        }
    }
}

const struct placement_handle *placement_find(uint32_t generation, unsigned slot)
{
    struct placement_set *set = set_find(generation);

    return set == NULL || slot / set->size >= set->count ? NULL : &set->handles[slot / set->size];
}

void placement_keep(const struct placement_handle *kept)
{
    for (struct placement_set *set = sets; set != NULL; set = set->next) {
        for (unsigned i = 0; i < set->count; i++) {
            if (&set->handles[i] != kept) {
                handle_close(&set->handles[i]);
            }
        }
    }
}

void placement_call(const struct placement_handle *handle)
{
    uint64_t one = 1;

    if (write(handle->call_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        log_alert(log_main, errno, "write() to an eventfd failed");
    }
}

/* The bit of a slot's member in `accepting`. */
static uint64_t bit_of(uint32_t generation, unsigned slot)
{
    return UINT64_C(1) << slot % set_find(generation)->size;
}

void placement_worker_gone(uint32_t generation, unsigned slot)
{
    const struct placement_handle *handle = placement_find(generation, slot);

    if (handle == NULL) {
        return;
    }
    uint64_t bit = bit_of(generation, slot);
    uint64_t before = atomic_fetch_and(&handle->group->accepting, ~bit);
    if ((before & ~bit) == 0) {
        placement_call(handle);
    }
}

bool placement_stands_by(uint32_t generation, unsigned slot)
{
    const struct placement_handle *handle = placement_find(generation, slot);

    return handle != NULL &&
           (atomic_load(&handle->group->accepting) & bit_of(generation, slot)) == 0;
}

bool placement_is_served(uint32_t generation, unsigned slot, uint64_t since_ns)
{
    const struct placement_handle *handle = placement_find(generation, slot);

    if (handle == NULL) {
        return false;
    }
    uint64_t accepting = atomic_load(&handle->group->accepting);
    for (unsigned i = 0; i < PLACEMENT_GROUP_MOST; i++) {
        if ((accepting >> i & 1) != 0 &&
            atomic_load(&handle->group->members[i].turned_ns) >= since_ns) {
            return true;
        }
    }
    return false;
}
