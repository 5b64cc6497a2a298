/* The worker: what runs between its fork and its exit. */
#define _GNU_SOURCE
#include "server/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "net/datagram/binaries.h"
#include "net/datagram/flow.h"
#include "net/shards/listener.h"
#include "net/shards/placement.h"
#include "server/configuration/generation_life.h"
#include "server/module.h"
#include "server/process/cells.h"
#include "server/process/channel.h"
#include "server/process/environment.h"
#include "server/process/server.h"
#include "server/process/signals.h"
#include "server/process/title.h"
#include "server/worker/balance.h"
#include "server/worker/capacity.h"
#include "server/worker/crash.h"
#include "server/worker/handover.h"
#include "server/worker/privileges.h"

enum { TRIM_EVERY_MS = 5000 };
enum { STALL_LINE_EVERY_MS = 1000 };

unsigned worker_slot;
enum worker_role worker_role;
const char *const worker_role_names[WORKER_ROLES] = {
    [WORKER_SERVES] = "worker process",
    [WORKER_AGENT] = "privileged agent process",
    [WORKER_BACKGROUND] = "background process",
};
bool worker_is_quitting;
bool worker_is_replaced;

static struct {
    struct event_source channel;
    struct timer shutdown_timer; /* worker_shutdown_timeout */
    struct timer trim_timer;     /* gives spare memory back to the system */
    bool must_end;               /* TERM, or the time is up */
    bool ends_alone;             /* it got a signal itself: the master starts another one */
    bool is_upgraded;            /* CHANNEL_UPGRADED */
    bool was_winched;            /* quit by WINCH: debug_points at the end */
} worker = {.channel = {.fd = -1}};

/* ---- messages and signals */

static struct listener *listener_by_number(uint32_t number)
{
    struct listener *listener = generation_now->listeners;

    while (listener != NULL && number-- != 0) {
        listener = listener->next;
    }
    return listener;
}

static void tell_master(uint32_t type, uint32_t listener, uint32_t slot)
{
    const struct channel_message message = {.type = type, .listener = listener, .slot = slot};

    if (worker.channel.fd >= 0 && !channel_send(worker.channel.fd, &message, -1) &&
        errno != EPIPE && errno != ECONNRESET) {
        log_alert(log_main, errno, "sendmsg() to the master failed");
    }
}

/* A callback's argument holds the retired slot itself, so that nothing leaks when the callback is
   never called. */
enum { SLOT_BITS = 16 };

static void retired(void *arg)
{
    uintptr_t which = (uintptr_t) arg;

    tell_master(CHANNEL_RETIRED, (uint32_t) (which >> SLOT_BITS), which & ((1u << SLOT_BITS) - 1));
}

static void adopt_message(const struct channel_message *message, int fd)
{
    struct listener *listener = listener_by_number(message->listener);
    uintptr_t which = (uintptr_t) message->listener << SLOT_BITS | message->slot;

    if (listener == NULL || worker_is_quitting) {
        close(fd);
        return;
    }
    bool is_adopted = listener->options.is_datagram
                          ? datagram_adopt(listener, message->slot, fd, retired, (void *) which)
                          : acceptor_adopt(listener, message->slot, fd, retired, (void *) which);
    if (!is_adopted) {
        log_alert(log_main, errno, "cannot adopt slot %u of %.*s", message->slot,
                  STR_ARG(listener->text));
    }
}

/* A connection that the master has accepted, from a socket that no configuration uses any more. */
static void accepted_message(const struct channel_message *message, int fd)
{
    struct listener *listener = listener_by_number(message->listener);
    struct addr peer = {.len = sizeof(peer.un)};

    if (listener == NULL || listener->accepted == NULL ||
        getpeername(fd, &peer.any, &peer.len) != 0) {
        close(fd);
        return;
    }
    listener->accepted(listener, fd, &peer);
}

static void reopen_logs(void)
{
    log_notice(log_main, 0, "reopening logs");
    generation_reopen_logs(generation_now, (uid_t) -1);
}

/* The whole service quits, or only this worker: idle connections are closed. */
static void quit_worker(void)
{
    if (worker_is_replaced) {
        worker_is_replaced = false;
        datagrams_stop(DATAGRAMS_ENDED);
        worker_modules_quit(generation_now);
    }
    worker_quit();
}

/* Workers of another master serve. If this worker is already quitting, only its UDP flows end:
 * those workers do not pass on datagrams for them. */
static void obey_upgrade(int fd)
{
    if (worker_is_quitting) {
        datagrams_stop(DATAGRAMS_UPGRADED);
    } else if (fd >= 0) {
        worker_is_replaced = worker.is_upgraded = true;
        handover_start(fd);
        fd = -1;
    }
    if (fd >= 0) {
        close(fd);
    }
    worker_quit();
}

static void obey_message(const struct channel_message *message, int fd)
{
    struct listener *listener;

    switch (message->type) {
    case CHANNEL_QUIT:
        quit_worker();
        break;
    case CHANNEL_REPLACED:
        if (fd >= 0) {
            handover_start(fd);
            fd = -1;
        }
        worker_is_replaced = worker_is_replaced || !worker_is_quitting;
        worker_quit();
        break;
    case CHANNEL_UPGRADED:
        obey_upgrade(fd);
        fd = -1;
        break;
    case CHANNEL_TERMINATE:
        counters_mine->pid = 0; /* so that the last worker that ends finds no other one */
        worker.must_end = true;
        break;
    case CHANNEL_REOPEN:
        reopen_logs();
        break;
    case CHANNEL_GONE:
        handover_listener_gone(message->listener);
        break;
    case CHANNEL_HANDOVER:
        if (fd >= 0 && !worker_is_quitting) {
            handover_receive(fd, false);
            fd = -1;
        }
        break;
    case CHANNEL_ADOPT:
        if (fd >= 0) {
            adopt_message(message, fd);
            fd = -1;
        }
        break;
    case CHANNEL_ACCEPTED:
        if (fd >= 0) {
            accepted_message(message, fd);
            fd = -1;
        }
        break;
    case CHANNEL_LOOK:
        acceptors_look_at(message->slot);
        break;
    case CHANNEL_MAILBOX:
        if (datagram_mailbox_of_other(message->slot, fd)) {
            fd = -1;
        }
        break;
    case CHANNEL_RETURN:
        listener = listener_by_number(message->listener);
        if (listener != NULL && listener->options.is_datagram) {
            datagram_return(listener, message->slot);
        } else if (listener != NULL) {
            acceptor_return(listener, message->slot);
        }
        break;
    default:
        break;
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void channel_ready(struct event_source *source, unsigned events)
{
    struct channel_message message;
    enum channel_result result;
    int fd;

    while (source->fd >= 0 &&
           (result = channel_receive(source->fd, &message, &fd)) != CHANNEL_EMPTY) {
        if (result == CHANNEL_CLOSED) {
            /* The master has ended: continue to serve, as workers of nginx do; signals still
               work. */
            event_remove(source);
            close(source->fd);
            event_forget(source);
            source->fd = -1;
            return;
        }
        obey_message(&message, fd);
    }
}

/* ends_alone: another process than the master ended this worker, so the master starts a new one. */
static void on_signal(int signo, int sender_pid)
{
    switch (signo) {
    case SIGTERM:
    case SIGINT:
        worker.ends_alone = !worker_is_quitting && sender_pid != getppid();
        worker.must_end = true;
        break;
    case SIGQUIT:
        worker.ends_alone = !worker_is_quitting && sender_pid != getppid();
        quit_worker();
        break;
    case SIGWINCH:
        if (generation_now->core->daemon) {
            worker.was_winched = true;
            quit_worker();
        }
        break;
    case SIGUSR1:
        reopen_logs();
        break;
    default:
        break;
    }
}

/* ---- begin */

bool worker_modules_start(struct generation *generation)
{
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->worker_start != NULL && !(*m)->worker_start(generation)) {
            log_emerg(log_main, 0, "worker could not start: %s", (*m)->name);
            return false;
        }
    }
    return true;
}

static void trim(struct timer *timer)
{
    arena_trim();
}

static void shutdown_time_is_up(struct timer *timer)
{
    worker.must_end = true;
}

/* Logs at most one line a second. */
static void report_stall(uint64_t took_ms)
{
    static uint64_t said_ms;

    counters_mine->stalls++;
    if (said_ms == 0 || clock_now.now_ms - said_ms >= STALL_LINE_EVERY_MS) {
        said_ms = clock_now.now_ms;
        log_warn(log_main, 0, "the event loop was blocked for %" PRIu64 "ms", took_ms);
    }
}

enum worker_role worker_role_of(const struct generation *generation, unsigned slot)
{
    return slot < generation->slots    ? WORKER_SERVES
           : slot == generation->slots ? WORKER_AGENT
                                       : WORKER_BACKGROUND;
}

static uint32_t connections_of(const struct generation *generation)
{
    switch (worker_role) {
    case WORKER_AGENT:
        return generation->agent_connections;
    case WORKER_BACKGROUND:
        return generation->background_connections;
    default:
        return (uint32_t) generation->events->worker_connections;
    }
}

bool worker_begin(const struct worker_start *start)
{
    struct generation *generation = start->generation;
    const struct events_settings *events = generation->events;
    const struct loop_options options = {.events_per_turn = (unsigned) events->epoll_events,
                                         .pulse = cell_pulse(start->cell),
                                         .log = log_main,
                                         .stalled = report_stall,
                                         .stall_ms = events->stall_threshold_ms};

    CHECK_MAGIC(generation, GENERATION_MAGIC);
    generation_now = generation;
    worker_slot = start->slot;
    worker_role = worker_role_of(generation, start->slot);
    counters_mine = cell_counters(start->cell);
    counters_mine->slot = start->slot;
    counters_mine->pid = worker_role == WORKER_SERVES ? (uint32_t) getpid() : 0;
    clock_update();
    if (!loop_init(&options)) {
        log_emerg(log_main, errno, "epoll_create() failed");
        return false;
    }
    conn_pool_init(connections_of(generation));
    if (!loop_host_fibers(capacity_init(generation), generation->fiber_stack_size)) {
        log_emerg(log_main, errno, "no memory for the stacks of fibers");
        return false;
    }
    capacity_fit(generation, fiber_pool_left());
    crash_watch();
    timer_init(&worker.shutdown_timer, shutdown_time_is_up);
    timer_init(&worker.trim_timer, trim);
    return worker_modules_start(generation);
}

/* Siblings send idle connections to the mailbox. */
static bool read_mailbox(void)
{
    int fd = placement_mailbox() == -1 ? -1 : fcntl(placement_mailbox(), F_DUPFD_CLOEXEC, 0);

    if (fd >= 0) {
        handover_receive(fd, true);
    }
    return fd >= 0 || placement_mailbox() == -1;
}

bool worker_accept(struct generation *generation)
{
    const struct accept_options options = {
        .generation = generation->number,
        .multi_accept = generation->events->multi_accept,
        .slots = generation->slots,
        .hand_over = balance_hand_over,
        .load = &counters_mine->active,
        .accepted = &counters_mine->accepted,
        .requests = &counters_mine->requests,
    };

    return acceptors_start(generation->listeners, worker_slot, &options) && read_mailbox() &&
           datagrams_start(generation->listeners, generation->number, worker_slot);
}

static bool watch_channel(int fd)
{
    event_source_init(&worker.channel, fd, channel_ready);
    if (!event_add_listener(&worker.channel, false)) {
        log_emerg(log_main, errno, "epoll_ctl() failed");
        return false;
    }
    return true;
}

/* Closes this worker's copies of listening sockets that the master closes once the older workers
   have stopped. */
static void drop_unwanted_sockets(void)
{
    for (struct shard_set *set = shard_sets(); set != NULL; set = set->next) {
        for (unsigned slot = 0; slot < set->count && !set->is_wanted; slot++) {
            if (set->fds[slot] >= 0) {
                close(set->fds[slot]);
                set->fds[slot] = -1;
            }
        }
    }
}

/* Everything up to the first connection. */
static bool start_worker(const struct worker_start *start)
{
    struct generation *generation = start->generation;
    sigset_t signals;

    enum worker_role role = worker_role_of(generation, start->slot);
    bool serves = role == WORKER_SERVES;

    title_set(str_of(worker_role_names[role]));
    environ = environment_make(&generation->arena, &generation->core->environment,
                               server.environment, NULL);
    shards_keep_slot(serves ? (int) start->slot : -1, generation->slots);
    drop_unwanted_sockets();
    if ((serves && !privileges_apply(generation, start->slot)) || !worker_begin(start)) {
        return false;
    }
    signals_of_worker(&signals);
    if (!loop_watch_signals(&signals, on_signal)) {
        log_emerg(log_main, errno, "signalfd() failed");
        return false;
    }
    if (role == WORKER_BACKGROUND && !privileges_drop(generation)) {
        return false;
    }
    return watch_channel(start->channel) && (!serves || worker_accept(generation));
}

/* ---- end */

void worker_modules_quit(struct generation *generation)
{
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->worker_quit != NULL) {
            (*m)->worker_quit(generation);
        }
    }
}

void worker_modules_end(struct generation *generation)
{
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->worker_end != NULL) {
            (*m)->worker_end(generation);
        }
    }
}

void worker_quit(void)
{
    uint64_t limit_ms = generation_now->core->worker_shutdown_timeout_ms;

    if (worker_is_quitting) {
        return;
    }
    log_notice(log_main, 0, "gracefully shutting down");
    worker_is_quitting = true;
    counters_mine->pid = 0;
    char title[64];

    title_set((struct str){title, (size_t) snprintf(title, sizeof(title), "%s is shutting down",
                                                    worker_role_names[worker_role])});
    acceptors_stop();
    if (worker_is_replaced) {
        datagrams_stop(worker.is_upgraded ? DATAGRAMS_UPGRADED : DATAGRAMS_REPLACED);
    } else {
        datagrams_quit();
    }
    handover_receive_end(worker.ends_alone);
    shards_keep_slot(-1, 0);
    if (limit_ms != 0) {
        timer_set(&worker.shutdown_timer, clock_now.now_ms + limit_ms);
    }
    worker_modules_quit(generation_now);
}

static bool is_something_open(void)
{
    struct fiber_pool_stats fibers;

    fiber_pool_stats(&fibers);
    return conn_pool.used != 0 || datagram_flows() != 0 || fibers.in_use != 0;
}

bool worker_is_done(void)
{
    if (worker.must_end) {
        return true;
    }
    if (worker.trim_timer.deadline_ms == NO_DEADLINE && conn_pool.used != 0) {
        timer_set(&worker.trim_timer, clock_now.now_ms + TRIM_EVERY_MS);
    }
    if (!worker_is_quitting || conn_pool.used != 0 || datagram_flows() != 0 ||
        !handover_is_done()) {
        return false;
    }
    return !is_something_open();
}

/* Turns of the loop in which requests can unwind after their connections were aborted. */
#define LAST_TURNS 16
/* Time for calls on threads for these requests, which cannot be cancelled. */
#define LAST_THREADS_MS 2000
#define LAST_WAIT_MS 10 /* longest turn while calls on threads are awaited */

/* Aborts the requests in progress so that they end as others do: they are logged, and free what
   they use. */
static void break_off(struct generation *generation)
{
    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->worker_abort != NULL) {
            (*m)->worker_abort(generation);
        }
    }
    uint64_t limit_ms = clock_now.now_ms + LAST_THREADS_MS;
    for (unsigned turns = 0; turns < LAST_TURNS && is_something_open();) {
        if (thread_calls_are_running() && clock_now.now_ms < limit_ms) {
            loop_turn(LAST_WAIT_MS);
        } else {
            loop_turn(0);
            turns++;
        }
    }
}

void worker_destroy(struct generation *generation)
{
    handover_free();
    handover_receive_end(worker.ends_alone);
    acceptors_stop();
    if (is_something_open()) {
        break_off(generation);
    }
    datagrams_destroy();
    if (worker.channel.fd >= 0) {
        event_remove(&worker.channel);
        close(worker.channel.fd);
        worker.channel.fd = -1;
    }
    timer_remove(&worker.shutdown_timer);
    timer_remove(&worker.trim_timer);
    worker_modules_end(generation);
    loop_destroy();
}

/* debug_points: stops or aborts a worker that WINCH has ended, to inspect it. */
static void debug_point(const struct core_settings *core)
{
    if (worker.was_winched && core->debug_points == 1) {
        raise(SIGSTOP);
    } else if (worker.was_winched && core->debug_points == 2) {
        abort();
    }
}

/* Logs the counts of the slot since the service started, including earlier workers. */
static void log_slot(unsigned slot)
{
    struct shard_counts counts;

    shard_counts(slot, &counts);
    log_info(log_main, 0,
             "slot %u: accepted %" PRIu64 ", taken by siblings %" PRIu64 ", adopted %" PRIu64
             ", in vain %" PRIu64 ", joined %" PRIu64 ", left %" PRIu64 ", gave %" PRIu64,
             slot, counts.own, counts.taken, counts.adopted, counts.in_vain, counts.joined,
             counts.left, counts.gave);
}

int worker_run(const struct worker_start *start)
{
    if (!start_worker(start)) {
        return 2;
    }
    tell_master(CHANNEL_READY, 0, 0);
    loop_run(worker_is_done);
    if (worker_role == WORKER_SERVES) {
        log_slot(start->slot);
    }
    log_notice(log_main, 0, "exiting");
    debug_point(start->generation->core);
    worker_destroy(start->generation);
    log_notice(log_main, 0, "exit");
    return 0;
}
