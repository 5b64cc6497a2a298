/* The worker's loop: readiness, timers, things to do before it sleeps, wake-ups, signals.
 * Implemented in loop.c, fibers.c, signals.c, thread_call.c, threads.c and timer.c. */
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
    EVENT_READ = 1,        /* input, or the end of it */
    EVENT_WRITE = 2,       /* room for output */
    EVENT_ERROR = 4,       /* error or hang-up; comes with READ and WRITE set */
    EVENT_PEER_CLOSED = 8, /* the peer has shut its sending side (EPOLLRDHUP) */
};

/*
 * A descriptor that the loop watches. Embedded in a connection or a listener. Registered once,
 * edge-triggered; interest in output is added once, when output has to wait for the first time.
 * After that no system call is made to change interest. Owned by the struct that embeds it.
 */
struct event_source {
    int fd;                 /* -1 = none */
    bool is_registered;     /* known to the backend; the loop's to write */
    bool is_output_watched; /* the socket is watched for output as well; the loop's to write */
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
 * only when that fires is the entry moved. Clearing before the firing costs a store as well.
 */
struct timer {
    struct heap_node node;
    uint64_t deadline_ms; /* true deadline, clock_now.now_ms time; NO_DEADLINE = not set */
    void (*fire)(struct timer *timer); /* on the loop's stack */
};

static inline void timer_init(struct timer *timer, void (*fire)(struct timer *))
{
    timer->node.index = HEAP_OUT;
    timer->deadline_ms = NO_DEADLINE;
    timer->fire = fire;
}

void timer_set(struct timer *timer, uint64_t deadline_ms);

/* Forgets the deadline; the entry may stay in the heap until its old key comes up. */
static inline void timer_clear(struct timer *timer)
{
    timer->deadline_ms = NO_DEADLINE;
}

/* Takes the timer out of the heap; must be called before its memory goes away. */
void timer_remove(struct timer *timer);

/* Walks the timers that are set, in no order; visit may not touch them. */
void timers_each(void (*visit)(const struct timer *timer, void *arg), void *arg);

/*
 * A thing to do at the end of this turn, before the loop sleeps: output to flush, log lines to
 * write.
 */
struct deferred {
    struct list node; /* on one of the loop's lists while it is pending, else alone */
    /* On the loop's stack, no longer pending; may defer again: then it runs in the same turn. */
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

/* Runs it once before the loop sleeps; more calls before that change nothing. */
void loop_defer(struct deferred *deferred);

/* Takes it off whichever list it is on; does nothing when it is not pending. */
static inline void loop_undefer(struct deferred *deferred)
{
    list_remove(&deferred->node);
}

/* Runs it in the next turn, which then does not sleep: for work that gives others their share. */
void loop_defer_next(struct deferred *deferred);

/* Deferred to the very end of the turn, after all loop_defer work: log writes. */
void loop_defer_last(struct deferred *deferred);

/*
 * The same for what a peer waits for. When several of these are pending, or some tens of events
 * have passed one, all deferred-last work runs before the next event, and so it does before fibers
 * run, so that nobody waits for the rest of a long turn.
 */
void loop_defer_last_urgent(struct deferred *deferred);
/* For a callback that stands for many events, between two of them: urgent work runs if enough is
 * pending, or has passed it. */
void loop_run_urgent(void);
/* Before code that may take long (scripts): urgent work that is pending runs now, on the worker's
 * own stack. */
void loop_finish_urgent(void);

/* What the shards' watch reads in shared memory: one padded cell per worker. */
struct loop_pulse {
    _Atomic uint64_t turns;       /* raised at each turn; written by the worker only */
    _Atomic uint32_t is_sleeping; /* 1 while it waits for events */
    uint32_t pad;
};

struct loop_options {
    unsigned events_per_turn; /* epoll_events, default 512 */
    struct loop_pulse *pulse; /* or NULL */
    const struct log *log;
    /* Called after a turn whose work took this long or longer, on the loop's stack; stall_ms 0:
     * never. */
    void (*stalled)(uint64_t took_ms);
    uint64_t stall_ms;
};

/*
 * One loop per process. init may be called again in a forked child (makes a new epoll instance).
 * False with errno.
 */
bool loop_init(const struct loop_options *options);
void loop_destroy(void);

/* Turns until loop_stop, or until `until` (may be NULL) gives true, asked after each turn. */
void loop_run(bool (*until)(void));
void loop_stop(void);

/*
 * One turn: waits at most timeout_ms (-1: until something happens), runs what is ready, due and
 * deferred.
 */
void loop_turn(int timeout_ms);

/*
 * Calls for code that has to know how busy this loop is. On the loop's stack. begins: after the
 * wait, before any event, and clock_now is fresh; continues: after every few events; ends: before
 * the wait, which sleeps or not.
 */
struct loop_observer {
    void (*begins)(void);
    void (*continues)(void);
    void (*ends)(bool sleeps);
};
/* One at most; NULL = none any more. It must stay valid. */
void loop_observe(const struct loop_observer *observer);

/* Number of turns so far. */
uint64_t loop_turns(void);

/* A time in which nothing wakes this process: what comes meanwhile is found together. */
struct loop_pause {
    unsigned us;         /* less than a second */
    bool is_last_resort; /* only where nothing is ready: costs a look */
};

/*
 * The next turn, if it would sleep, pauses first. Others that watch the same sockets may be woken
 * for what comes. The pause must stay valid until then.
 */
void loop_pause(const struct loop_pause *pause);
/* Number of pauses that were made so far. */
uint64_t loop_pauses(void);

/*
 * Watches both directions, edge-triggered; `ready` is called for what is ready already, too, at the
 * next turn. False with errno. Does nothing when it is registered (but adds output if it was left
 * out).
 */
bool event_add(struct event_source *source);

/*
 * The same for input and its end only: spares the event that tells of a fresh socket's room for
 * output. event_want_output adds that direction later, once, when output has to wait.
 */
bool event_add_input(struct event_source *source);
bool event_want_output(struct event_source *source);

/*
 * For sockets that are only read and shared by several processes: level-triggered, EPOLLEXCLUSIVE
 * when is_shared.
 */
bool event_add_listener(struct event_source *source, bool is_shared);

/*
 * Stops watching; to be called before close when the descriptor lives on elsewhere, else close is
 * enough.
 */
void event_remove(struct event_source *source);

/*
 * The source was closed by its owner inside a callback: events of this turn that are still to be
 * delivered for it are dropped. Memory of a source may be reused only after this call.
 */
void event_forget(struct event_source *source);

/*
 * `to`, which has a `ready` of its own, takes over the descriptor of `from` together with its
 * registration; events of this turn that are still to be delivered go to it. `from` has no
 * descriptor afterwards.
 */
void event_move(struct event_source *from, struct event_source *to);

/* Signals as events (signalfd): blocks them for the process and calls back on the loop's stack. */
bool loop_watch_signals(const sigset_t *signals, void (*on_signal)(int signo, int sender_pid));

/* The former signal mask: for a child before exec, which must not inherit the blocked ones. */
void loop_restore_signals(void);

/*
 * A wake-up from another thread (thread pool): runs `run` on the loop's stack. Safe from any
 * thread.
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
    struct thread_job *next, *prev; /* in the queue; of the pool */
    bool is_queued;                 /* no thread has taken it; of the pool */
};
/* Starts threads lazily; false when the queue limit is reached. */
struct thread_pool;
struct thread_pool *thread_pool_new(struct str name, unsigned threads, unsigned max_queue);
bool thread_pool_submit(struct thread_pool *pool, struct thread_job *job);
/* Takes it out of the queue again: it will not run, nor be done. False: a thread has it. */
bool thread_pool_withdraw(struct thread_pool *pool, struct thread_job *job);
void thread_pool_free(struct thread_pool *pool);
/* How a call on a thread went. */
enum thread_called {
    THREAD_CALL_DONE,     /* it has returned */
    THREAD_CALL_REFUSED,  /* it did not run: the queue is full, or there is no memory */
    THREAD_CALL_CANCELLED /* it did not run and never will: the fiber was cancelled before a thread
                             took it */
};
/*
 * From a fiber: runs run(arg) on a thread and waits until it has returned. arg may not lie on the
 * fiber's stack: a worker that is to end waits for the thread for a limited time. MAY WAIT.
 */
enum thread_called thread_pool_call(struct thread_pool *pool, void (*run)(void *arg), void *arg);
/* Is a thread busy with any of these calls, or about to be, for a fiber that waits? */
bool thread_calls_are_running(void);

/*
 * The run of all fibers of this worker: deadlines of fibers are kept in the loop's heap and woken
 * fibers run in the turn that woke them. Called once by the worker after loop_init. stack_size:
 * bytes of address space for each; 0 = the usual.
 */
bool loop_host_fibers(unsigned max_fibers, size_t stack_size);

/*
 * From a fiber that works on and on, and may have nothing to wait for: events get a turn where this
 * one has lasted for some milliseconds. MAY WAIT. False: the fiber was cancelled.
 */
bool loop_share(void);

#endif
