/* The trace behind make doors: loaded before a program that was compiled with
 * -finstrument-functions, it writes each function that is entered or left, and each wait for
 * events, to a file of the process below the folder $DOORS. doors.py reads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_EVENTS (8u << 20)

enum event_kind { FUNCTION_ENTERED, FUNCTION_LEFT, WAIT_ENTERED, WAIT_LEFT };

/* 16 bytes, as doors.py unpacks them. */
struct event {
    uint64_t function : 48;
    uint64_t kind : 16;
    uint64_t frame; /* where on its stack: tells fibers from each other */
};

struct trace {
    _Atomic uint64_t count;
    uint64_t unused;
    struct event events[MOST_EVENTS];
};

static struct trace *trace;

static struct trace *trace_create(void)
{
    char path[2048];
    snprintf(path, sizeof(path), "%s/%d", getenv("DOORS"), (int) getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd == -1 || ftruncate(fd, sizeof(struct trace)) == -1) {
        perror(path);
        abort();
    }
    struct trace *made =
        mmap(NULL, sizeof(struct trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (made == MAP_FAILED) {
        perror(path);
        abort();
    }
    return made;
}

/* A child stands as deep in calls as its parent, so that it begins with what its parent had
 * written. */
static void trace_inherit(void)
{
    struct trace *parent = trace;
    trace = trace_create();
    memcpy(trace->events, parent->events, parent->count * sizeof(struct event));
    trace->count = parent->count;
    munmap(parent, sizeof(struct trace));
}

__attribute__((constructor)) static void trace_start(void)
{
    if (getenv("DOORS") != NULL) {
        trace = trace_create();
        pthread_atfork(NULL, NULL, trace_inherit);
    }
}

static void note(enum event_kind kind, void *function, void *frame)
{
    if (trace != NULL && trace->count < MOST_EVENTS) {
        trace->events[trace->count] = (struct event){.function = (uintptr_t) function,
                                                     .kind = kind,
                                                     .frame = (uintptr_t) frame};
        atomic_store_explicit(&trace->count, trace->count + 1, memory_order_release);
    }
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    note(FUNCTION_ENTERED, function, __builtin_frame_address(0));
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    note(FUNCTION_LEFT, function, __builtin_frame_address(0));
}

int epoll_pwait2(int epoll, struct epoll_event *events, int room, const struct timespec *timeout,
                 const sigset_t *signals)
{
    static int (*next)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    if (next == NULL) {
        *(void **) &next = dlsym(RTLD_NEXT, "epoll_pwait2");
    }
    note(WAIT_ENTERED, NULL, __builtin_frame_address(0));
    int count = next(epoll, events, room, timeout, signals);
    note(WAIT_LEFT, NULL, __builtin_frame_address(0));
    return count;
}

int epoll_wait(int epoll, struct epoll_event *events, int room, int timeout_ms)
{
    static int (*next)(int, struct epoll_event *, int, int);
    if (next == NULL) {
        *(void **) &next = dlsym(RTLD_NEXT, "epoll_wait");
    }
    note(WAIT_ENTERED, NULL, __builtin_frame_address(0));
    int count = next(epoll, events, room, timeout_ms);
    note(WAIT_LEFT, NULL, __builtin_frame_address(0));
    return count;
}
