/* A child that does one job with the rights of workers. */
#define _GNU_SOURCE
#include "server/isolated.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/process/title.h"
#include "server/worker/privileges.h"

static _Noreturn void run_child(const struct generation *generation,
                                const struct isolated_work *work)
{
    title_set(work->title);
    _exit(work->prepare(work->arg) && privileges_drop(generation) && work->run(work->arg) ? 0 : 1);
}

/* Waits for the end of the child, which holds the other end of the pipe as long as it runs. False:
   it still runs after limit_ms. */
static bool is_over(int fd, unsigned limit_ms)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    int count;

    do {
        count = poll(&end, 1, (int) limit_ms);
    } while (count < 0 && errno == EINTR);
    return count != 0;
}

static bool await(pid_t pid, int fd, const struct isolated_work *work)
{
    bool is_late = !is_over(fd, work->limit_ms);
    int status = 0;

    if (is_late) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    if (is_late) {
        log_alert(log_main, 0, "%.*s %d did not end within %ums and was killed",
                  STR_ARG(work->title), (int) pid, work->limit_ms);
    } else if (WIFSIGNALED(status)) {
        log_alert(log_main, 0, "%.*s %d exited on signal %d", STR_ARG(work->title), (int) pid,
                  WTERMSIG(status));
    }
    return !is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool isolated_run(const struct generation *generation, const struct isolated_work *work)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_alert(log_main, errno, "pipe2() failed while spawning \"%.*s\"", STR_ARG(work->title));
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        run_child(generation, work);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        log_alert(log_main, error, "fork() failed while spawning \"%.*s\"", STR_ARG(work->title));
    }
    bool is_good = pid > 0 && await(pid, ends[0], work);
    close(ends[0]);
    return is_good;
}
