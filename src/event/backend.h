/* The interface of an event backend; private to this package. */
#ifndef EVENT_BACKEND_H
#define EVENT_BACKEND_H

#include <stdbool.h>

#include "event/loop.h"

/* How a source is to be watched. */
enum watch_kind {
    WATCH_INPUT,           /* edge-triggered: input and its end */
    WATCH_BOTH,            /* edge-triggered: output as well */
    WATCH_LISTENER,        /* level-triggered input */
    WATCH_SHARED_LISTENER, /* the same, and one event wakes one process only */
};

/*
 * A way to learn what is ready. One is in use per process. A backend keeps the promise of
 * event_forget: what it delivers belongs to a source that is registered at that moment.
 */
struct event_backend {
    const char *name; /* as `use` knows it */
    /* A fresh instance, also in a forked child of one that had its own. False with errno. */
    bool (*init)(unsigned events_per_turn);
    void (*destroy)(void);
    /* Registers, or changes what is watched. False with errno. */
    bool (*watch)(struct event_source *source, enum watch_kind kind);
    void (*remove)(struct event_source *source);
    void (*forget)(struct event_source *source);
    /* Another source has the descriptor from now on, registered as it is. */
    void (*move)(struct event_source *to);
    /* Waits at most timeout_ms (-1: for ever). Events gathered are delivered by the next call.
     * False: there are none. */
    bool (*wait)(int timeout_ms);
    /* Delivers so many events at most. False: there are no more. */
    bool (*deliver)(unsigned most);
};

extern const struct event_backend epoll_backend;

/* timer.c: of this process; keys <= deadline_ms of their timers. */
extern struct heap timers;
#define TIMER_KEY_SHIFT 20 /* of a key: the bits below the deadline in ms */
/* Fires what is due. */
void timers_run_due(void);
/* Forgets every timer; a forked child starts with none. */
void timers_reset(void);

/* threads.c: the wake-up descriptor of this process. */
bool messages_init(void);
void messages_destroy(void);

/* signals.c: stops watching, the mask stays. */
void signals_destroy(void);

/* fibers.c: ends the run of all fibers. */
void fibers_destroy(void);

#endif
