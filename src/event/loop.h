/* The worker's loop: readiness, timers, deferred work, wake-ups, signals. Implemented in loop.c,
 * fibers.c, signals.c, thread_call.c, threads.c and timer.c. */
#ifndef EVENT_LOOP_H
#define EVENT_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"

#define NO_DEADLINE UINT64_MAX

enum {
    EVENT_READ = 1,        /* there is input, or its end */
    EVENT_WRITE = 2,       /* output can be written */
    EVENT_ERROR = 4,       /* error or hang-up; comes with READ and WRITE set */
    EVENT_PEER_CLOSED = 8, /* EPOLLRDHUP: the peer sends no more; comes with READ set */
};

/*
 * A descriptor that the loop watches. Embedded in a connection or a listener. Registered once,
 * edge-triggered; interest in output is added once, when output has to wait for the first time.
 * After that no system call is made to change interest. Owned by the struct that embeds it.
 */
struct event_source {
    int fd;                 /* -1 = none */
    bool is_registered;     /* known to the backend; written by the loop only */
    bool is_output_watched; /* the socket is watched for output as well; written by the loop only */
    void (*ready)(struct event_source *source, unsigned events); /* on the loop's stack */
};

static inline void event_source_init(struct event_source *source, int fd,
                                     void (*ready)(struct event_source *, unsigned))
{
    source->fd = fd;
    source->is_registered = false;
    source->is_output_watched = false;
    source->ready = ready;
}

/*
 * A timer. Moving the deadline to later costs one store: the heap keeps its older, earlier key, and
 * moves the entry only when that key comes up. Clearing it before it fires costs one store as well.
 */
struct timer {
    struct heap_node node;
    uint64_t deadline_ms; /* the actual deadline, in clock_now.now_ms time; NO_DEADLINE = not set */
    void (*fire)(struct timer *timer); /* on the loop's stack */
};

static inline void timer_init(struct timer *timer, void (*fire)(struct timer *))
{
    timer->node.index = HEAP_OUT;
    timer->deadline_ms = NO_DEADLINE;
    timer->fire = fire;
}

void timer_set(struct timer *timer, uint64_t deadline_ms);

/* Clears the deadline; the entry may stay in the heap until its old key comes up. */
static inline void timer_clear(struct timer *timer)
{
    timer->deadline_ms = NO_DEADLINE;
}

/* Takes the timer out of the heap; must be called before its memory goes away. */
void timer_remove(struct timer *timer);

/* Visits the timers that are set, in no order; visit must not change them. */
void timers_each(void (*visit)(const struct timer *timer, void *arg), void *arg);

/*
 * Work for the end of this turn, before the loop sleeps: output to flush, log lines to write.
 */
struct deferred {
    struct list node; /* on one of the loop's lists while it is pending, else alone */
    /* Called on the loop's stack, when it is no longer pending. It may defer itself again, and then
       runs in the same turn. */
    void (*run)(struct deferred *deferred);
};

static inline void deferred_init(struct deferred *deferred, void (*run)(struct deferred *))
{
    list_init(&deferred->node);
    deferred->run = run;
}

static inline bool deferred_is_pending(const struct deferred *deferred)
{
    return !list_is_empty(&deferred->node);
}

/* Runs it once before the loop sleeps; does nothing if it is pending already. */
void loop_defer(struct deferred *deferred);

/* Takes it off the list that it is on; does nothing when it is not pending. */
static inline void loop_undefer(struct deferred *deferred)
{
    list_remove(&deferred->node);
}

/* Runs it in the next turn, which then does not sleep: for long work that lets other work run in
   between. */
void loop_defer_next(struct deferred *deferred);

/* Runs it at the very end of the turn, after all loop_defer work: for log writes. */
void loop_defer_last(struct deferred *deferred);

/*
 * The same for work that a peer waits for. All deferred-last work runs before the next event when
 * several of these are pending, or when some tens of events came after the first of them, and
 * always before fibers run, so that the peer does not wait for the end of a long turn.
 */
void loop_defer_last_urgent(struct deferred *deferred);
/* For a callback that handles many events, between two of them: runs urgent work if enough is
 * pending, or if it has waited for enough events. */
void loop_run_urgent(void);
/* Before code that may take long (scripts): runs the pending urgent work now, on the worker's own
 * stack. */
void loop_finish_urgent(void);

/* Read by the master in shared memory to detect a blocked worker; one padded cell per worker. */
struct loop_pulse {
    _Atomic uint64_t turns;       /* raised at each turn; written by the worker only */
    _Atomic uint32_t is_sleeping; /* 1 while it waits for events */
    uint32_t pad;
};

struct loop_options {
    unsigned events_per_turn; /* epoll_events, default 512 */
    struct loop_pulse *pulse; /* or NULL */
    const struct log *log;
    /* Called on the loop's stack after a turn whose work took at least stall_ms; 0: never. */
    void (*stalled)(uint64_t took_ms);
    uint64_t stall_ms;
};

/*
 * One loop per process. init may be called again in a forked child (makes a new epoll instance).
 * False with errno.
 */
bool loop_init(const struct loop_options *options);
void loop_destroy(void);

/* Runs turns until loop_stop is called, or until `until` (may be NULL), which is called after each
   turn, gives true. */
void loop_run(bool (*until)(void));
void loop_stop(void);

/*
 * One turn: waits at most timeout_ms (-1: until something happens), delivers events, fires timers,
 * runs fibers and deferred work.
 */
void loop_turn(int timeout_ms);

/*
 * Calls for code that measures how busy this loop is, on the loop's stack. begins: after the wait
 * and clock_update, before the first event; continues: after every few events; ends: before the
 * wait, which may be one that does not sleep.
 */
struct loop_observer {
    void (*begins)(void);
    void (*continues)(void);
    void (*ends)(bool sleeps);
};
/* Sets the only observer; NULL = none. It must stay valid. */
void loop_observe(const struct loop_observer *observer);

/* Number of turns so far. */
uint64_t loop_turns(void);

/* A time in which the process sleeps and is not woken: events that come meanwhile are handled
   together. */
struct loop_pause {
    unsigned us;         /* less than a second */
    bool is_last_resort; /* pause only if nothing is ready, which costs a system call */
};

/*
 * The next turn pauses first, if it would sleep. Meanwhile other processes that watch the same
 * sockets may be woken. The pause must stay valid until then.
 */
void loop_pause(const struct loop_pause *pause);
/* Number of pauses so far. */
uint64_t loop_pauses(void);

/*
 * Watches for input and output, edge-triggered. In the next turn `ready` is called for what is
 * ready already. False with errno. Does nothing when the source is registered (but adds output if
 * that is not watched).
 */
bool event_add(struct event_source *source);

/*
 * The same for input and its end only: avoids the event that reports a new socket as writable.
 * event_want_output adds output later, once, when output has to wait.
 */
bool event_add_input(struct event_source *source);
bool event_want_output(struct event_source *source);

/*
 * For sockets that are only read, by one or several processes: level-triggered, EPOLLEXCLUSIVE when
 * is_shared.
 */
bool event_add_listener(struct event_source *source, bool is_shared);

/*
 * Stops watching. To be called before close when another process has the descriptor as well;
 * otherwise event_forget is enough.
 */
void event_remove(struct event_source *source);

/*
 * To be called when the owner closes the source: events of this turn that were not delivered yet
 * are dropped. The source's memory may be reused only after this call.
 */
void event_forget(struct event_source *source);

/*
 * `to`, which has its own `ready`, takes over the descriptor of `from` and its registration; events
 * of this turn that were not delivered yet go to it. `from` has no descriptor afterwards.
 */
void event_move(struct event_source *from, struct event_source *to);

/* Signals as events (signalfd): blocks them for the process and calls on_signal on the loop's
   stack. False with errno. */
bool loop_watch_signals(const sigset_t *signals, void (*on_signal)(int signo, int sender_pid));

/* Restores the original signal mask: for a child before exec, which must not inherit blocked
   signals. */
void loop_restore_signals(void);

/*
 * A message from another thread (thread pool): wakes the loop, which calls `run` on its stack. Safe
 * from any thread.
 */
struct loop_message {
    struct loop_message *next;
    void (*run)(struct loop_message *message);
};
void loop_post_from_thread(struct loop_message *message);

/*
 * Background threads for blocking file work: `work` runs on a thread, `done` on the loop's stack.
 */
struct thread_job {
    struct loop_message message;
    void (*work)(struct thread_job *job);
    void (*done)(struct thread_job *job);
    struct thread_job *next, *prev; /* in the queue; used by the pool */
    bool is_queued;                 /* no thread has taken it; used by the pool */
};
/* A pool starts its threads when they are needed. submit: false when the queue is full, or no
   thread could be started. */
struct thread_pool;
struct thread_pool *thread_pool_new(struct str name, unsigned threads, unsigned max_queue);
bool thread_pool_submit(struct thread_pool *pool, struct thread_job *job);
/* Takes the job out of the queue: neither work nor done will be called. False: a thread has taken
   it. */
bool thread_pool_withdraw(struct thread_pool *pool, struct thread_job *job);
void thread_pool_free(struct thread_pool *pool);
/* The result of a call on a thread. */
enum thread_called {
    THREAD_CALL_DONE,     /* it has returned */
    THREAD_CALL_REFUSED,  /* it did not run: the queue is full, or there is no memory */
    THREAD_CALL_CANCELLED /* it did not run and never will: the fiber was cancelled before a thread
                             took it */
};
/*
 * From a fiber: runs run(arg) on a thread and waits until it has returned. arg must not be on the
 * fiber's stack: a worker that is ending waits for the thread for a limited time only. MAY WAIT.
 */
enum thread_called thread_pool_call(struct thread_pool *pool, void (*run)(void *arg), void *arg);
/* Does a thread run any of these calls, or will it, while its fiber waits? */
bool thread_calls_are_running(void);

/*
 * Hosts all fibers of this worker: their deadlines are in the loop's heap, and woken fibers run in
 * the turn that woke them. Called once by the worker after loop_init. stack_size: bytes of address
 * space for each; 0 = the default.
 */
bool loop_host_fibers(unsigned max_fibers, size_t stack_size);

/*
 * For a fiber that works for a long time, perhaps without waiting: when the turn has lasted some
 * milliseconds, lets the loop deliver events. MAY WAIT. False: the fiber was cancelled.
 */
bool loop_share(void);

#endif
