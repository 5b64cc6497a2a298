/* The master: signals, messages of workers, deaths and timers. */
#define _GNU_SOURCE
#include "server/master/master.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "config.h"
#include "net/datagram/binaries.h"
#include "net/datagram/flow.h"
#include "net/shards/listener.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/log_pipe.h"
#include "server/master/other_master.h"
#include "server/master/shard_care.h"
#include "server/master/shard_idle.h"
#include "server/process/notify.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"
#include "server/process/signals.h"
#include "server/process/title.h"

/* KILL follows when the delay exceeds this. With sanitizers a process checks for leaks when it
 * ends, which takes long on a busy machine. */
#ifdef WITH_SANITIZER
#define ESCALATE_LAST_MS 4000
#else
#define ESCALATE_LAST_MS 1000
#endif

enum {
    ESCALATE_FIRST_MS = 50, /* TERM is sent again after this, doubled each time */
    YOUNG_MS = 1000,        /* a worker that dies sooner is respawned with a delay */
    YOUNG_DELAY_MS = 100,
    UPGRADE_LOOK_MS = 500,   /* how often to check whether the older master still runs */
    OTHER_MASTER_MS = 10000, /* how long our workers wait for those of a new binary */
    FATAL_STATUS = 2,
};

struct master master;
static int signal_fd = -1;
static uint64_t look_at_ms;         /* next check of the shards */
static uint64_t upgrade_look_at_ms; /* next check of the older master; 0 = there is none */

void master_set_pid_path(struct str path)
{
    char *copy = malloc(path.len + 1);

    if (copy == NULL) {
        fatal_no_memory(path.len + 1);
    }
    memcpy(copy, path.data, path.len);
    copy[path.len] = '\0';
    free((char *) master.pid_path.data);
    master.pid_path = (struct str){copy, path.len};
}

/* ---- to all workers */

static void command_all(enum channel_type type)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY) {
            process_command(process, type, -1);
        }
    }
}

/* Asks all workers to quit. Their idle connections go to the workers of the other master, if there
   is one. */
static void quit_all(void)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY && !other_master_replaces(process)) {
            process_command(process, CHANNEL_QUIT, -1);
        }
    }
}

static void kill_all(void)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY) {
            kill(process->pid, SIGKILL);
        }
    }
}

/* ---- signals */

/*
 * Reports to systemd that the service ends. A master that leaves the service to another one does
 * not report it: systemd would wait for the other one's end, and finally kill it.
 */
static void tell_end(void)
{
    const struct process *binary = process_new_binary();

    if (binary != NULL) {
        notify_main(binary->pid);
    } else if (!another_master_lives()) {
        notify_stopping();
    }
}

static void terminate(void)
{
    if (!master.is_terminating) {
        master.is_terminating = true;
        master.escalate_delay_ms = ESCALATE_FIRST_MS;
        master.escalate_at_ms = clock_now.now_ms + ESCALATE_FIRST_MS;
        tell_end();
    }
    command_all(CHANNEL_TERMINATE);
}

static void escalate(void)
{
    if (master.escalate_delay_ms > ESCALATE_LAST_MS) {
        kill_all();
    } else {
        command_all(CHANNEL_TERMINATE);
    }
    master.escalate_delay_ms *= 2;
    master.escalate_at_ms = clock_now.now_ms + master.escalate_delay_ms;
}

/* A quit that waits until the other master's workers accept, but not beyond until_ms. */
static struct {
    void (*run)(void);
    uint64_t until_ms;
} postponed;

static void master_quit(void);

static bool postpone(void (*run)(void))
{
    if (!other_master_is_starting()) {
        return false;
    }
    if (postponed.run == NULL) {
        postponed.until_ms = clock_now.now_ms + OTHER_MASTER_MS;
    }
    if (postponed.run != master_quit) { /* includes all that a later WINCH does */
        postponed.run = run;
    }
    return clock_now.now_ms < postponed.until_ms;
}

static void master_quit(void)
{
    if (!master.is_quitting && !postpone(master_quit)) {
        master.is_quitting = true;
        tell_end();
        quit_all();
        shards_close_all(another_master_lives());
    }
}

/* QUIT. The service continues to accept for `shutdown_delay`, unless another master continues
 * it. */
static void begin_to_quit(void)
{
    uint64_t delay_ms = master.generation->core->shutdown_delay_ms;

    if (delay_ms == 0 || master.drains_until_ms != 0 || master.is_quitting ||
        master.is_terminating || master.has_stopped_workers || another_master_lives()) {
        master.drains_until_ms = 0;
        master_quit();
        return;
    }
    log_notice(log_main, 0, "draining for %llums before the shutdown",
               (unsigned long long) delay_ms);
    master.drains_until_ms = clock_now.now_ms + delay_ms;
    atomic_store(service_drains, true);
}

static void reopen(void)
{
    log_notice(log_main, 0, "reopening logs");
    generation_reopen_logs(master.generation,
                           geteuid() == 0 ? master.generation->core->user : (uid_t) -1);
    command_all(CHANNEL_REOPEN);
}

static void winch(void)
{
    if (!master.has_stopped_workers && !postpone(winch)) {
        master.has_stopped_workers = true;
        quit_all();
    }
}

static void run_postponed(void)
{
    void (*run)(void) = postponed.run;

    if (run == winch && other_master_fd() < 0) { /* the new binary has ended: our workers stay */
        postponed.run = NULL;
    } else if (run != NULL &&
               (!other_master_is_starting() || clock_now.now_ms >= postponed.until_ms)) {
        run();
        postponed.run = NULL;
    }
}

/* There is a second binary already, or we are it: a third one is refused. */
static bool upgrade_is_refused(void)
{
    return process_new_binary() != NULL || (server.is_upgrade && getppid() == server.parent);
}

static const char *tail_of(int signo)
{
    switch (signo) {
    case SIGHUP:
        return ", reconfiguring";
    case SIGURG:
        return ", rolling back";
    case SIGIO:
        return ", confirming";
    case SIGQUIT:
        return ", shutting down";
    case SIGTERM:
    case SIGINT:
        return ", exiting";
    case SIGWINCH:
        return master.generation->core->daemon ? ", stop accepting connections" : "";
    case SIGUSR1:
        return ", reopening logs";
    case SIGUSR2:
        return upgrade_is_refused() ? ", ignoring" : ", changing binary";
    default:
        return "";
    }
}

static void obey_signal(int signo)
{
    switch (signo) {
    case SIGHUP:
        if (!master.is_quitting && !master.is_terminating) {
            master_change(CHANGE_RELOAD);
        }
        break;
    case SIGURG:
        if (!master.is_quitting && !master.is_terminating) {
            master_change(CHANGE_ROLLBACK);
        }
        break;
    case SIGIO:
        change_confirm(master.generation);
        break;
    case SIGQUIT:
        begin_to_quit();
        break;
    case SIGTERM:
    case SIGINT:
        terminate();
        break;
    case SIGWINCH:
        if (master.generation->core->daemon) {
            winch();
        }
        break;
    case SIGUSR1:
        reopen();
        break;
    case SIGUSR2:
        if (upgrade_is_refused()) {
            log_crit(log_main, 0,
                     "the changing binary signal is ignored: you should shutdown or terminate "
                     "before either old or new binary's process");
        } else {
            master_upgrade();
        }
        break;
    default:
        break;
    }
}

/* ---- deaths */

static void log_death(const struct process *process, int status)
{
    const char *name = process_name(process);

    if (WIFSIGNALED(status)) {
        log_alert(log_main, 0, "%s %d exited on signal %d%s", name, (int) process->pid,
                  WTERMSIG(status), WCOREDUMP(status) ? " (core dumped)" : "");
        return;
    }
    log_notice(log_main, 0, "%s %d exited with code %d", name, (int) process->pid,
               WEXITSTATUS(status));
    if (WEXITSTATUS(status) == FATAL_STATUS && process->kind != PROCESS_NEW_BINARY) {
        log_alert(log_main, 0, "%s %d exited with fatal code %d and cannot be respawned", name,
                  (int) process->pid, WEXITSTATUS(status));
    }
}

static bool has_successor_due(const struct process *process, int status)
{
    return process->kind != PROCESS_NEW_BINARY &&
           process->generation == master.generation->number && !process->is_leaving &&
           !master.is_quitting && !master.is_terminating && !master.has_stopped_workers &&
           !(WIFEXITED(status) && WEXITSTATUS(status) == FATAL_STATUS);
}

static void bury(struct process *process, int status)
{
    log_death(process, status);
    bool is_due = has_successor_due(process, status);
    bool is_of_slot = process->kind == PROCESS_WORKER && process->role == WORKER_SERVES &&
                      process->generation != master.generation->number;
    bool is_binary = process->kind == PROCESS_NEW_BINARY;
    bool was_young = clock_now.now_ms - process->started_ms < YOUNG_MS;
    unsigned slot = process->slot;

    if (is_of_slot) {
        datagram_mailbox_close(process->generation, slot);
    }
    list_remove(&process->node);
    shard_care_process_gone(master.generation, process);
    process_free(process);
    if (is_binary) {
        master_upgrade_over();
    } else if (is_due && was_young) {
        counters_mine->respawned++;
        master.respawn_at_ms[slot] = clock_now.now_ms + YOUNG_DELAY_MS;
    } else if (is_due) {
        counters_mine->respawned++;
        master_start_slot(slot);
    }
}

static void reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct process *process = process_find(pid);

        if (process != NULL) {
            bury(process, status);
        } else if (!log_program_ended(master.generation, pid, status)) {
            log_notice(log_main, 0, "unknown process %d exited with code %d", (int) pid,
                       WEXITSTATUS(status));
        }
    }
}

static void take_signals(void)
{
    struct signalfd_siginfo info;
    bool has_deaths = false;

    while (read(signal_fd, &info, sizeof(info)) == (ssize_t) sizeof(info)) {
        int signo = (int) info.ssi_signo;

        signal_log(signo, (int) info.ssi_pid, tail_of(signo));
        if (signo == SIGCHLD) {
            has_deaths = true;
        } else {
            obey_signal(signo);
        }
    }
    if (has_deaths) {
        reap();
    }
}

/* ---- messages of workers */

static void take_message(struct process *process, const struct channel_message *message)
{
    switch (message->type) {
    case CHANNEL_READY:
        process->is_ready = true;
        if (!master.is_switching && process->generation == master.generation->number) {
            shard_care_settle(master.generation);
        }
        break;
    case CHANNEL_RETIRED:
        if (process->generation == master.generation->number) {
            shard_care_retired(master.generation, message->listener, message->slot);
        }
        break;
    default:
        break;
    }
}

static void take_messages(struct process *process)
{
    struct channel_message message;
    enum channel_result result;
    int fd;

    while (process->channel >= 0 &&
           (result = channel_receive(process->channel, &message, &fd)) != CHANNEL_EMPTY) {
        if (fd >= 0) {
            close(fd);
        }
        if (result == CHANNEL_CLOSED) {
            close(process->channel); /* the process is ending: SIGCHLD follows */
            process->channel = -1;
            return;
        }
        take_message(process, &message);
    }
}

/* ---- timers */

static void sooner(uint64_t *when, uint64_t other)
{
    if (other != 0 && other < *when) {
        *when = other;
    }
}

/* Can a configuration that was not confirmed be replaced now? */
static bool may_return(void)
{
    return change_due_ms() != 0 && !master.is_switching && !master.is_quitting &&
           !master.is_terminating && process_new_binary() == NULL;
}

static int wait_ms(void)
{
    uint64_t when = UINT64_MAX;

    if (shard_care_has_to_look(master.generation)) {
        if (look_at_ms == 0) {
            look_at_ms = clock_now.now_ms + SHARD_LOOK_MS;
        }
        sooner(&when, look_at_ms);
    } else {
        look_at_ms = 0;
    }
    sooner(&when, upgrade_look_at_ms);
    sooner(&when, postponed.run != NULL ? postponed.until_ms : 0);
    sooner(&when, master.drains_until_ms);
    sooner(&when, log_programs_due_ms(master.generation));
    sooner(&when, may_return() ? change_due_ms() : 0);
    if (master.is_switching) {
        sooner(&when, master.switch_by_ms);
    }
    if (master.is_terminating) {
        sooner(&when, master.escalate_at_ms);
    }
    for (unsigned slot = 0; slot < master_slots(); slot++) {
        sooner(&when, master.respawn_at_ms[slot]);
    }
    if (when == UINT64_MAX) {
        return -1;
    }
    return when <= clock_now.now_ms ? 0 : (int) (when - clock_now.now_ms);
}

static void respawn_due(void)
{
    for (unsigned slot = 0; slot < master_slots(); slot++) {
        uint64_t at_ms = master.respawn_at_ms[slot];

        if (at_ms != 0 && at_ms <= clock_now.now_ms) {
            master.respawn_at_ms[slot] = 0;
            if (!master.is_quitting && !master.is_terminating && !master.has_stopped_workers) {
                master_start_slot(slot);
            }
        }
    }
}

/*
 * The older master has ended, and systemd is our parent now. systemd checks whose child the main
 * process is only when that changes; a main process that is not its child is killed at once where
 * it should be stopped gracefully. So the main process is changed twice.
 */
static void tell_adopted(void)
{
    const struct process *worker = process_of_slot(master.generation->number, 0);

    if (worker != NULL && !master.is_quitting && !master.is_terminating) {
        notify_main(worker->pid);
        notify_main(getpid());
    }
}

/* Checks whether the older master has ended: then sockets that only it used can be closed. */
static void look_at_older_master(void)
{
    if (getppid() == server.parent) {
        upgrade_look_at_ms = clock_now.now_ms + UPGRADE_LOOK_MS;
        return;
    }
    server.is_upgrade = false;
    upgrade_look_at_ms = 0;
    datagram_binary_gone();
    tell_adopted();
    shard_care_settle(master.generation);
}

static void run_timers(void)
{
    uint64_t now_ms = clock_now.now_ms;

    respawn_due();
    log_programs_start(master.generation);
    if (master.is_switching &&
        (!master_is_waiting_for_workers() || now_ms >= master.switch_by_ms)) {
        master_switch();
        if (master.next_change != CHANGE_NONE && !master.is_quitting && !master.is_terminating) {
            master_change(master.next_change);
        }
    }
    if (may_return() && now_ms >= change_due_ms()) {
        master_change(CHANGE_RETURN);
    }
    if (look_at_ms != 0 && now_ms >= look_at_ms) {
        look_at_ms = now_ms + SHARD_LOOK_MS;
        if (!master.is_quitting && !master.is_terminating && !master.has_stopped_workers) {
            shard_care_look(master.generation);
        }
    }
    if (upgrade_look_at_ms != 0 && now_ms >= upgrade_look_at_ms) {
        look_at_older_master();
    }
    run_postponed();
    if (master.drains_until_ms != 0 && now_ms >= master.drains_until_ms) {
        master.drains_until_ms = 0;
        master_quit();
    }
    if (master.is_terminating && now_ms >= master.escalate_at_ms) {
        escalate();
    }
}

/* ---- the loop */

/* Waits for signals, messages and timers, and handles them. */
static void master_turn(struct pollfd *fds, unsigned capacity)
{
    int timeout_ms = wait_ms();
    unsigned count = 2;

    fds[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = shard_idle_fd(), .events = POLLIN}; /* poll() ignores -1 */
    if (other_master_fd() >= 0) {
        fds[count++] = (struct pollfd){.fd = other_master_fd(), .events = POLLIN};
    }
    list_each(item, &processes) {
        const struct process *process = container_of(item, struct process, node);

        if (process->channel >= 0 && count < capacity) {
            fds[count++] = (struct pollfd){.fd = process->channel, .events = POLLIN};
        }
    }
    if (poll(fds, count, timeout_ms) > 0 && fds[1].revents != 0) {
        shard_idle_end();
    }
    clock_update();
    list_each(item, &processes) {
        take_messages(container_of(item, struct process, node));
    }
    other_master_take_messages();
    take_signals();
    run_timers();
}

/* In a new child, before the worker starts: closes what belongs to the master. */
static void forked(void)
{
    close(signal_fd);
    signal_fd = -1;
    shard_idle_end();
    free((char *) master.pid_path.data);
    free(master.respawn_at_ms);
    free(master.gone);
    other_master_close();
    memset(&master, 0, sizeof(master));
}

static bool master_begin(struct generation *generation)
{
    sigset_t signals;

    signals_of_master(&signals);
    signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signal_fd < 0) {
        log_emerg(log_main, errno, "signalfd() failed");
        return false;
    }
    process_forked = forked;
    master.generation = generation;
    master_forget_respawns();
    master_set_pid_path(generation->core->pid_path);
    if (server.is_upgrade) {
        upgrade_look_at_ms = clock_now.now_ms + UPGRADE_LOOK_MS;
        other_master_inherit();
    }
    return true;
}

static void set_title(void)
{
    struct buf title = {0};

    buf_printf(&title, "master process");
    for (int i = 0; i < server.argc; i++) {
        buf_printf(&title, " %s", server.argv[i]);
    }
    title_set(buf_str(&title));
    buf_free(&title);
}

static void master_end(void)
{
    pid_file_remove(master.pid_path);
    shards_close_all(another_master_lives());
    datagram_mailboxes_close_all();
    log_notice(log_main, 0, "exit");
    while (!list_is_empty(&processes)) {
        process_free(container_of(processes.next, struct process, node));
    }
    log_main = server_last_log();
    generation_free(master.generation);
    forked();
}

int master_run(struct generation *generation)
{
    enum { FDS = 4096 };
    struct pollfd *fds = calloc(FDS, sizeof(*fds));

    if (fds == NULL) {
        fatal_no_memory(FDS * sizeof(*fds));
    }
    if (!master_begin(generation)) {
        free(fds);
        return 1;
    }
    set_title();
    log_programs_start(generation);
    master_start_workers();
    while ((!master.is_quitting && !master.is_terminating) || process_count() != 0) {
        master_turn(fds, FDS);
    }
    free(fds);
    master_end();
    return 0;
}
