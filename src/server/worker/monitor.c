/* The monitor of an unprivileged process: one fork, one socket. */
#define _GNU_SOURCE
#include "server/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/process/title.h"

#define MONITOR_FD 3 /* the only descriptor after standard input, output and error */

static _Noreturn void run_monitor(struct str title, int fd, void (*serve)(int fd, void *arg),
                                  void *arg)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    title_set(title);
    if (fd != MONITOR_FD) {
        dup3(fd, MONITOR_FD, O_CLOEXEC);
    }
    closefrom(MONITOR_FD + 1);
    serve(MONITOR_FD, arg);
    _exit(0);
}

bool monitor_start(struct monitor *monitor, struct str title, void (*serve)(int fd, void *arg),
                   void *arg)
{
    int ends[2];

    *monitor = (struct monitor){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        run_monitor(title, ends[1], serve, arg);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = error;
        return false;
    }
    *monitor = (struct monitor){pid, ends[0]};
    return true;
}

void monitor_end(struct monitor *monitor, bool is_idle)
{
    if (monitor->pid != 0) {
        close(monitor->fd);
        if (is_idle) {
            waitpid(monitor->pid, NULL, 0);
        }
        *monitor = (struct monitor){.fd = -1};
    }
}
