/* The epoll backend: one instance per process, and a generation number per descriptor that detects
   stale events. */
#define _GNU_SOURCE
#include "event/backend.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Entries by descriptor: the source in the low 48 bits, a generation in the high 16. An event
 * carries descriptor and generation, and is delivered only if both still match the entry. So no
 * search is needed when a source was forgotten, or a descriptor number was reused within one batch.
 */
#define SOURCE_BITS 48
#define SOURCE_MASK ((UINT64_C(1) << SOURCE_BITS) - 1)
#define SOURCES_FIRST 512 /* one page of entries */
/* A flag in an event's data, above the generation: the event is of a listener. */
#define OF_LISTENER (UINT64_C(1) << 63)
#define GENERATION_MASK 0xffff

static int epoll_fd = -1;
static struct epoll_event *batch; /* buffer for the events of one turn */
static unsigned batch_size;       /* of batch */
static int batch_count;           /* events of this turn */
static int batch_next;            /* index of the event that is delivered next */
static uint64_t *sources;         /* by descriptor */
static unsigned sources_size;     /* of sources */

/*
 * Mapped, so that growing copies nothing and only the pages in use take memory. New pages are zero.
 */
static bool sources_make_room(unsigned fd)
{
    unsigned size = sources_size == 0 ? SOURCES_FIRST : sources_size;
    void *mapping;

    while (size <= fd) {
        size *= 2;
    }
    if (sources == NULL) {
        mapping = mmap(NULL, size * sizeof(*sources), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
        mapping = mremap(sources, sources_size * sizeof(*sources), size * sizeof(*sources),
                         MREMAP_MAYMOVE);
    }
    if (mapping == MAP_FAILED) {
        return false;
    }
    sources = mapping;
    sources_size = size;
    return true;
}

static void epoll_destroy(void)
{
    if (epoll_fd != -1) {
        close(epoll_fd);
        epoll_fd = -1;
    }
    free(batch);
    batch = NULL;
    batch_count = 0;
    if (sources != NULL) {
        munmap(sources, sources_size * sizeof(*sources));
        sources = NULL;
        sources_size = 0;
    }
}

static bool epoll_init(unsigned events_per_turn)
{
    epoll_destroy();
    batch_size = events_per_turn;
    batch = calloc(batch_size, sizeof(*batch));
    if (batch == NULL || !sources_make_room(0)) {
        epoll_destroy();
        errno = ENOMEM;
        return false;
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd == -1) {
        int error = errno;

        epoll_destroy();
        errno = error;
        return false;
    }
    return true;
}

static bool epoll_watch(struct event_source *source, enum watch_kind kind)
{
    static const uint32_t masks[] = {
        [WATCH_INPUT] = EPOLLIN | EPOLLRDHUP | EPOLLET,
        [WATCH_BOTH] = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        [WATCH_LISTENER] = EPOLLIN,
        [WATCH_SHARED_LISTENER] = EPOLLIN | EPOLLEXCLUSIVE,
    };
    unsigned fd = (unsigned) source->fd;

    if (fd >= sources_size && !sources_make_room(fd)) {
        errno = ENOMEM;
        return false;
    }
    uint64_t generation = sources[fd] >> SOURCE_BITS;
    if (!source->is_registered) {
        generation = (generation + 1) & GENERATION_MASK;
    }
    assert(((uintptr_t) source & ~SOURCE_MASK) == 0);
    uint64_t mark = kind == WATCH_LISTENER || kind == WATCH_SHARED_LISTENER ? OF_LISTENER : 0;
    struct epoll_event event = {.events = masks[kind],
                                .data.u64 = mark | generation << 32 | (uint32_t) fd};
    int op = source->is_registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(epoll_fd, op, source->fd, &event) == -1) {
        return false;
    }
    sources[fd] = generation << SOURCE_BITS | (uint64_t) (uintptr_t) source;
    return true;
}

static void epoll_forget(struct event_source *source)
{
    sources[source->fd] &= ~SOURCE_MASK;
}

static void epoll_move(struct event_source *to)
{
    sources[to->fd] = (sources[to->fd] & ~SOURCE_MASK) | (uint64_t) (uintptr_t) to;
}

static void epoll_remove(struct event_source *source)
{
    /* ENOENT and EBADF: it was removed already. */
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    epoll_forget(source);
}

/*
 * Moves listeners to the front: the kernel woke this process for a connection and left others
 * asleep, so the connection is accepted before any work that may take long.
 */
static void listeners_first(void)
{
    int first = 0;

    for (int i = 0; i < batch_count; i++) {
        if (batch[i].data.u64 & OF_LISTENER) {
            struct epoll_event event = batch[i];

            batch[i] = batch[first];
            batch[first++] = event;
        }
    }
}

static bool epoll_wait_for_events(int timeout_ms)
{
    /* EINTR: a signal that is not watched; the turn continues without events. */
    int n = epoll_wait(epoll_fd, batch, (int) batch_size, timeout_ms);

    batch_count = n < 0 ? 0 : n;
    batch_next = 0;
    if (batch_count > 1) {
        listeners_first();
    }
    return batch_count != 0;
}

static void deliver_one(const struct epoll_event *event)
{
    uint32_t fd = (uint32_t) event->data.u64;
    uint64_t entry = sources[fd];

    if (entry >> SOURCE_BITS != (event->data.u64 >> 32 & GENERATION_MASK) ||
        (entry & SOURCE_MASK) == 0) {
        return;
    }
    struct event_source *source = (struct event_source *) (uintptr_t) (entry & SOURCE_MASK);
    uint32_t got = event->events;
    unsigned events = (got & EPOLLIN ? EVENT_READ : 0) | (got & EPOLLOUT ? EVENT_WRITE : 0);
    if (got & EPOLLRDHUP) {
        events |= EVENT_READ | EVENT_PEER_CLOSED;
    }
    if (got & (EPOLLERR | EPOLLHUP)) {
        events |= EVENT_READ | EVENT_WRITE | EVENT_ERROR;
    }
    source->ready(source, events);
}

static bool epoll_deliver(unsigned most)
{
    for (; batch_next < batch_count && most != 0; most--) {
        deliver_one(&batch[batch_next++]);
    }
    return batch_next < batch_count;
}

const struct event_backend epoll_backend = {
    .name = "epoll",
    .init = epoll_init,
    .destroy = epoll_destroy,
    .watch = epoll_watch,
    .remove = epoll_remove,
    .forget = epoll_forget,
    .move = epoll_move,
    .wait = epoll_wait_for_events,
    .deliver = epoll_deliver,
};
