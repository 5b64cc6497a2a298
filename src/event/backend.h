/* The interface of an event backend; private to this package. */
#ifndef EVENT_BACKEND_H
#define EVENT_BACKEND_H

#include <stdbool.h>

#include "event/loop.h"

/* What a source is watched for. */
enum watch_kind {
    WATCH_INPUT,           /* edge-triggered: input and its end */
    WATCH_BOTH,            /* edge-triggered: output as well */
    WATCH_LISTENER,        /* level-triggered input */
    WATCH_SHARED_LISTENER, /* the same, and an event wakes only one process */
};

/*
 * A method of waiting for readiness. One is in use per process. A backend implements the guarantee
 * of event_forget: it delivers an event only to a source that is registered at that moment.
 */
struct event_backend {
    const char *name; /* the name in the directive `use` */
    /* Makes a new instance, also in a forked child of a process that had one. False with errno. */
    bool (*init)(unsigned events_per_turn);
    void (*destroy)(void);
    /* Registers a source, or changes what it is watched for. False with errno. */
    bool (*watch)(struct event_source *source, enum watch_kind kind);
    void (*remove)(struct event_source *source);
    void (*forget)(struct event_source *source);
    /* From now on another source has the descriptor and its registration. */
    void (*move)(struct event_source *to);
    /* Waits at most timeout_ms (-1: without limit). deliver() then delivers the events. False:
     * there are none. */
    bool (*wait)(int timeout_ms);
    /* Delivers at most `most` events. False: there are no more. */
    bool (*deliver)(unsigned most);
};

extern const struct event_backend epoll_backend;

/* timer.c: the timers of this process; a key is never later than the deadline of its timer. */
extern struct heap timers;
#define TIMER_KEY_SHIFT 20 /* the lowest bits of a key; the deadline in ms is above them */
/* Fires the timers that are due. */
void timers_run_due(void);
/* Forgets every timer; a forked child starts with none. */
void timers_reset(void);

/* threads.c: the wake-up descriptor of this process. */
bool messages_init(void);
void messages_destroy(void);

/* signals.c: stops watching; the signal mask stays. */
void signals_destroy(void);

/* fibers.c: destroys the pool of fibers. */
void fibers_destroy(void);

#endif
