/* `master_process off`: one process that handles the master's signals and does the work of a
   worker. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "net/datagram/flow.h"
#include "net/shards/listener.h"
#include "server/configuration/change.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/log_pipe.h"
#include "server/process/cells.h"
#include "server/process/environment.h"
#include "server/process/notify.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"
#include "server/process/signals.h"
#include "server/worker/handover.h"
#include "server/worker/worker.h"

enum {
    OLD_MOST = 16,
    LEAVING_LOOK_MS = 25, /* how often sockets that no configuration uses are checked */
};

/* How long clients have after QUIT, unless worker_shutdown_timeout is set: users who run a single
 * process wait for its end. */
#define QUIT_MS 1500

/* Generations that connections and fibers may still use; freed when no connection and no fiber is
   left. */
static struct generation *old[OLD_MOST];
static unsigned old_count;
static bool must_end;
static enum change next_change;
static struct timer quit_timer;
static struct timer drain_timer;    /* shutdown_delay */
static struct timer programs_timer; /* restarts a log program */
static struct timer leaving_timer;
static struct timer return_timer; /* the configuration was not confirmed */

static void return_due(struct timer *timer)
{
    if (change_due_ms() != 0 &&
        next_change == CHANGE_NONE) { /* it was not confirmed in the meantime */
        next_change = CHANGE_RETURN;
    }
}

static void set_return_timer(void)
{
    timer_remove(&return_timer);
    if (change_due_ms() != 0) {
        timer_set(&return_timer, change_due_ms());
    }
}

static void start_programs(void)
{
    log_programs_start(generation_now);
    uint64_t due_ms = log_programs_due_ms(generation_now);

    if (due_ms != 0) {
        timer_set(&programs_timer, due_ms);
    }
}

/* Sets the environment from `env`; the memory of the old one belongs to the old generation. */
static void set_environment(struct generation *generation)
{
    environ = environment_make(&generation->arena, &generation->core->environment,
                               server.environment, NULL);
}

static void quit_time_is_up(struct timer *timer)
{
    (void) timer;
    must_end = true;
}

static void quit_now(struct timer *timer)
{
    timer_clear(timer);
    worker_quit();
    if (generation_now->core->worker_shutdown_timeout_ms == 0) {
        timer_set(&quit_timer, clock_now.now_ms + QUIT_MS);
    }
}

/* The first QUIT takes effect after `shutdown_delay`, a second one at once. */
static void begin_to_quit(void)
{
    uint64_t delay_ms = generation_now->core->shutdown_delay_ms;

    if (delay_ms == 0 || service_is_draining()) {
        quit_now(&drain_timer);
        return;
    }
    log_notice(log_main, 0, "draining for %llums before the shutdown",
               (unsigned long long) delay_ms);
    atomic_store(service_drains, true);
    timer_set(&drain_timer, clock_now.now_ms + delay_ms);
}

static void programs_due(struct timer *timer)
{
    start_programs();
}

/*
 * Children are log programs and programs of modules. Log programs of older generations are not
 * restarted. Programs in a process group of their own are left to the thread that waits for them.
 */
static void reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(0, &status, WNOHANG)) > 0) {
        log_program_ended(generation_now, pid, status);
    }
    start_programs();
}

static void on_signal(int signo, int sender_pid)
{
    switch (signo) {
    case SIGTERM:
    case SIGINT:
        signal_log(signo, sender_pid, ", exiting");
        counters_mine->pid = 0;
        must_end = true;
        break;
    case SIGQUIT:
        signal_log(signo, sender_pid, ", shutting down");
        begin_to_quit();
        break;
    case SIGHUP:
        signal_log(signo, sender_pid, ", reconfiguring");
        next_change = CHANGE_RELOAD;
        break;
    case SIGURG:
        signal_log(signo, sender_pid, ", rolling back");
        next_change = change_after(next_change, CHANGE_ROLLBACK);
        break;
    case SIGIO:
        signal_log(signo, sender_pid, ", confirming");
        change_confirm(generation_now);
        break;
    case SIGUSR1:
        signal_log(signo, sender_pid, ", reopening logs");
        log_notice(log_main, 0, "reopening logs");
        generation_reopen_logs(generation_now, (uid_t) -1);
        break;
    case SIGCHLD:
        signal_log(signo, sender_pid, "");
        reap();
        break;
    default:
        signal_log(signo, sender_pid, ", ignoring");
        break;
    }
}

static void free_old(void)
{
    while (old_count != 0) {
        struct generation *generation = old[--old_count];

        worker_modules_end(generation);
        generation_free(generation);
    }
}

/* Accepts a connection from a set that is being closed. */
static bool take_accepted(int fd, const struct addr *local, void *arg)
{
    struct listener *listener = listener_serving(generation_now->listeners, local);
    struct addr peer = {.len = sizeof(peer.un)};
    int copy = listener == NULL || getpeername(fd, &peer.any, &peer.len) != 0
                   ? -1
                   : fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy >= 0) {
        listener->accepted(listener, copy, &peer);
    }
    return true;
}

static void look_at_leaving(struct timer *timer)
{
    if (shard_sets_leaving(take_accepted, NULL)) {
        timer_set(timer, clock_now.now_ms + LEAVING_LOOK_MS);
    }
}

/* Closes listening sockets that the running generation does not use. */
static void end_unwanted_sets(void)
{
    for (struct shard_set *set = shard_sets(), *after; set != NULL; set = after) {
        after = set->next;
        if (!set->is_wanted && !(server.is_upgrade && getppid() == server.parent)) {
            shard_set_end(set, generation_now->listeners);
        }
    }
    look_at_leaving(&leaving_timer);
}

/* New connections, and those that are idle now, move to the new generation. */
static void take_over_connections(struct generation *next)
{
    struct generation *former = generation_now;

    acceptors_stop();
    fiber_era_begin();
    generation_now = next;
    set_environment(next);
    if (!worker_modules_start(next) || !worker_accept(next)) {
        log_alert(log_main, 0, "the new configuration does not work in this process");
    }
    worker_is_replaced = true;
    handover_within(next);
    worker_modules_quit(former);
    handover_within(NULL);
    worker_is_replaced = false;
    old[old_count++] = former;
    end_unwanted_sets();
}

static void change(void)
{
    enum change change = next_change;

    next_change = CHANGE_NONE;
    log_notice(log_main, 0, "reconfiguring");
    if (old_count == OLD_MOST) {
        log_error(log_main, 0, "too many older configurations are still in use");
        counters_mine->reload_failures++;
        return;
    }
    struct generation *next = change_make(generation_now, change);

    if (next != NULL) {
        take_over_connections(next);
    }
    set_return_timer();
}

static void free_old_if_unused(void)
{
    if (old_count != 0 && conn_pool.used == 0 && datagram_flows() == 0 &&
        fiber_former_count() == 0) {
        free_old();
    }
}

static bool is_done(void)
{
    if (next_change != CHANGE_NONE && !worker_is_quitting && !must_end) {
        free_old_if_unused(); /* so that the new one can use all connections at once */
        change();
    }
    free_old_if_unused();
    return must_end || worker_is_done();
}

int single_run(struct generation *generation)
{
    const struct worker_start start = {generation, 0, cell_take(), -1};
    struct str pid_path = generation->core->pid_path;
    sigset_t signals;
    int status = 1;

    signals_of_master(&signals);
    set_environment(generation);
    if (!worker_begin(&start)) {
        return 2;
    }
    if (!loop_watch_signals(&signals, on_signal)) {
        log_emerg(log_main, errno, "signalfd() failed");
    } else if (worker_accept(generation)) {
        timer_init(&programs_timer, programs_due);
        timer_init(&quit_timer, quit_time_is_up);
        timer_init(&drain_timer, quit_now);
        timer_init(&leaving_timer, look_at_leaving);
        timer_init(&return_timer, return_due);
        start_programs();
        notify_ready();
        loop_run(is_done);
        timer_remove(&programs_timer);
        timer_remove(&quit_timer);
        timer_remove(&drain_timer);
        timer_remove(&leaving_timer);
        timer_remove(&return_timer);
        status = 0;
    }
    notify_stopping();
    log_notice(log_main, 0, "exiting");
    pid_path = generation_now->core->pid_path;
    pid_file_remove(pid_path);
    worker_destroy(generation_now);
    free_old();
    shards_close_all(server.is_upgrade && getppid() == server.parent);
    log_notice(log_main, 0, "exit");
    log_main = server_last_log();
    generation_free(generation_now);
    return status;
}
