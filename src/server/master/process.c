/* The processes that the master has started. */
#include "server/master/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/log_pipe.h"
#include "server/process/cells.h"
#include "server/process/server.h"
#include "server/worker/worker.h"

struct list processes = {&processes, &processes};

const char *process_name(const struct process *process)
{
    return process->kind == PROCESS_WORKER ? worker_role_names[process->role]
                                           : "new binary process";
}

void (*process_forked)(void);

struct process *process_add(enum process_kind kind, pid_t pid)
{
    struct process *process = calloc(1, sizeof(*process));

    if (process == NULL) {
        fatal_no_memory(sizeof(*process));
    }
    process->kind = kind;
    process->pid = pid;
    process->cell = CELL_NONE;
    process->channel = -1;
    process->started_ms = clock_now.now_ms;
    list_push_back(&processes, &process->node);
    return process;
}

void process_free(struct process *process)
{
    list_remove(&process->node);
    cell_give_back(process->cell);
    if (process->channel >= 0) {
        close(process->channel);
    }
    free(process);
}

/* The child runs this and ends. Frees all memory of the master at its end, so that leak checks
   work. */
static _Noreturn void run_child(const struct worker_start *start)
{
    process_forked();
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        process->cell = CELL_NONE; /* the cell belongs to another process */
        process_free(process);
    }
    log_pipes_write_only(start->generation);
    int status = worker_run(start);

    log_main = server_last_log();
    generation_free(start->generation);
    server_free();
    exit(status);
}

struct process *process_start(struct generation *generation, unsigned slot)
{
    enum worker_role role = worker_role_of(generation, slot);
    const char *name = worker_role_names[role];
    int ends[2];

    if (!channel_open(ends)) {
        log_alert(log_main, errno, "socketpair() failed while spawning \"%s\"", name);
        return NULL;
    }
    uint32_t cell = cell_take();
    pid_t pid = fork();

    if (pid == 0) {
        const struct worker_start start = {generation, slot, cell, ends[1]};

        close(ends[0]);
        run_child(&start);
    }
    int error = errno;

    close(ends[1]);
    if (pid < 0) {
        log_alert(log_main, error, "fork() failed while spawning \"%s\"", name);
        cell_give_back(cell);
        close(ends[0]);
        return NULL;
    }
    log_notice(log_main, 0, "start %s %d", name, (int) pid);
    struct process *process = process_add(PROCESS_WORKER, pid);

    process->role = role;
    process->slot = slot;
    process->generation = generation->number;
    process->cell = cell;
    process->channel = ends[0];
    return process;
}

struct process *process_find(pid_t pid)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->pid == pid) {
            return process;
        }
    }
    return NULL;
}

struct process *process_of_slot(unsigned generation, unsigned slot)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind != PROCESS_NEW_BINARY && process->generation == generation &&
            process->slot == slot && !process->is_leaving) {
            return process;
        }
    }
    return NULL;
}

struct process *process_new_binary(void)
{
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (process->kind == PROCESS_NEW_BINARY) {
            return process;
        }
    }
    return NULL;
}

unsigned process_count(void)
{
    unsigned count = 0;

    list_each(item, &processes) {
        count += container_of(item, struct process, node)->kind != PROCESS_NEW_BINARY;
    }
    return count;
}

bool process_tell(struct process *process, const struct channel_message *message, int fd)
{
    return process->channel >= 0 && channel_send(process->channel, message, fd);
}

static int signal_of(enum channel_type type)
{
    switch (type) {
    case CHANNEL_QUIT:
    case CHANNEL_REPLACED:
    case CHANNEL_UPGRADED:
        return SIGQUIT;
    case CHANNEL_TERMINATE:
        return SIGTERM;
    default:
        return SIGUSR1;
    }
}

void process_command(struct process *process, enum channel_type type, int fd)
{
    const struct channel_message message = {.type = type};

    if (type != CHANNEL_REOPEN) {
        process->is_leaving = true;
    }
    if (process_tell(process, &message, fd)) {
        return;
    }
    if (kill(process->pid, signal_of(type)) != 0 && errno != ESRCH) {
        log_alert(log_main, errno, "kill(%d, %d) failed", (int) process->pid, signal_of(type));
    }
}
