/* USR2: starts another binary, which gets the listening sockets and runs beside this one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/datagram/binaries.h"
#include "net/shards/listener.h"
#include "server/master/master.h"
#include "server/master/other_master.h"
#include "server/process/environment.h"
#include "server/process/handed_down.h"
#include "server/process/notify.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"
#include "server/process/signals.h"

/* Makes the environment longer, which gives space for the title of the new process. */
#define SPARE                                                                                        \
    "SPARE=XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX" \
    "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"

/* In the child: the variables of `env`, the sockets, the channel to this master, what QUIC needs,
 * and where to report readiness. */
static char **make_environment(struct arena *arena, char *channel)
{
    struct str list = shards_export(arena);
    const char *notify = server_environment("NOTIFY_SOCKET");
    char *extra[6] = {NULL}, *handed_down = handed_down_make(arena);
    unsigned count = 0;

    extra[count++] = (char *) arena_printf(arena, "NGINX=%.*s", STR_ARG(list)).data;
    if (notify != NULL) {
        extra[count++] = (char *) arena_printf(arena, "NOTIFY_SOCKET=%s", notify).data;
    }
    if (channel != NULL) {
        extra[count++] = channel;
    }
    if (handed_down != NULL) {
        extra[count++] = handed_down;
    }
    extra[count] = (char *) SPARE;
    return environment_make(arena, &master.generation->core->environment, server.environment,
                            extra);
}

/* In the child of fork(). channel: the environment variable that other_master_open gave, or
 * NULL. */
static _Noreturn void run_binary(char *channel)
{
    struct arena arena;

    arena_init(&arena);
    char **environment = make_environment(&arena, channel);

    other_master_keep_open(); /* the descriptor in `channel` survives execve() */
    signals_reset();
    execve(server.program.data, server.argv, environment);
    log_alert(log_main, errno, "execve() failed while executing new binary process \"%s\"",
              server.program.data);
    _exit(2);
}

/* While two binaries run, the pid file of the old one has this name ("nginx.pid.oldbin"). */
static struct str old_name(struct arena *arena)
{
    return pid_file_old_name(arena, master.generation->core->pid_path);
}

void master_upgrade(void)
{
    struct arena arena;

    arena_init(&arena);
    log_notice(log_main, 0, "changing binary");
    struct str old = old_name(&arena);

    if (pid_file_rename(master.generation->core->pid_path, old)) {
        master_set_pid_path(old);
        char *channel = other_master_open(&arena);
        pid_t pid = fork();

        if (pid == 0) {
            run_binary(channel);
        }
        other_master_forked();
        if (pid < 0) {
            log_alert(log_main, errno, "fork() failed while spawning \"new binary process\"");
            master_upgrade_over();
        } else {
            log_notice(log_main, 0, "start new binary process %d", (int) pid);
            process_add(PROCESS_NEW_BINARY, pid);
            other_master_announce();
        }
    }
    arena_free(&arena);
}

/* The new binary has ended, or never started: this master gets its pid file back and, after WINCH,
 * starts its workers again. */
void master_upgrade_over(void)
{
    struct str path = master.generation->core->pid_path;

    other_master_close();
    datagram_binary_gone();
    change_runs_alone(master.generation);
    if (!str_equal(master.pid_path, path) && pid_file_rename(master.pid_path, path)) {
        master_set_pid_path(path);
    }
    if (master.has_stopped_workers && !master.is_quitting && !master.is_terminating) {
        master.has_stopped_workers = false;
        master_start_workers();
    }
    if (!master.is_quitting && !master.is_terminating) {
        notify_ready(); /* systemd: the new binary had reported itself as the main process */
    }
}
