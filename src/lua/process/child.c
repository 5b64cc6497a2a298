/* Programs that scripts start: the fork, the pipes, the end. */
#define _GNU_SOURCE
#include "lua/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/configuration/log_pipe.h"

#define CLOSE_BY_EXEC 4u /* CLOSE_RANGE_CLOEXEC of close_range(2) */

extern char **environ;

/* ---- the ends of pipes ---- */

static void end_ready(struct event_source *source, unsigned events)
{
    struct child_end *end = container_of(source, struct child_end, source);

    (void) events;
    wait_signal(&end->ready);
}

static void end_init(struct child_end *end, int fd)
{
    event_source_init(&end->source, fd, end_ready);
}

void child_end_close(struct child_end *end)
{
    if (end->source.fd >= 0) {
        event_forget(&end->source);
        close(end->source.fd);
        end->source.fd = -1;
        end->source.is_registered = false;
        if (end->is_busy) {
            wait_signal_later(&end->ready); /* who waits finds it closed */
        }
    }
}

uint64_t child_deadline(const struct child_end *end)
{
    return end->timeout_ms == 0 ? FIBER_NEVER : clock_now.now_ms + end->timeout_ms;
}

/* Until the descriptor may be ready. MAY WAIT. */
static enum child_result await(struct child_end *end, uint64_t deadline_ms)
{
    if (!end->source.is_registered && !event_add(&end->source)) {
        return CHILD_FAILED;
    }
    end->is_busy = true;
    enum wait_result result = fiber_wait(&end->ready, deadline_ms);
    end->is_busy = false;
    switch (result) {
    case WAIT_TIMED_OUT:
        return CHILD_TIMED_OUT;
    case WAIT_CANCELLED:
        return CHILD_CANCELLED;
    case WAIT_READY:
        break;
    }
    return end->source.fd >= 0 ? CHILD_DONE : CHILD_CANCELLED;
}

enum child_result child_write(struct child_end *end, struct str data, size_t *written)
{
    uint64_t deadline_ms = child_deadline(end);

    *written = 0;
    while (*written < data.len) {
        if (end->source.fd < 0) {
            return CHILD_CLOSED;
        }
        ssize_t n = write(end->source.fd, data.data + *written, data.len - *written);

        if (n >= 0) {
            *written += (size_t) n;
        } else if (errno == EAGAIN) {
            enum child_result result = await(end, deadline_ms);

            if (result != CHILD_DONE) {
                return result;
            }
        } else if (errno != EINTR) {
            int error = errno;

            child_end_close(end);
            errno = error;
            return CHILD_FAILED;
        }
    }
    return CHILD_DONE;
}

enum child_result child_read_more(struct child_end *end, size_t size, uint64_t deadline_ms)
{
    if (end->taken != 0) {
        memmove(end->input.data, end->input.data + end->taken, end->input.len - end->taken);
        end->input.len -= end->taken;
        end->taken = 0;
    }
    for (;;) {
        if (end->is_ended || end->source.fd < 0) {
            return CHILD_CLOSED;
        }
        ssize_t n = read(end->source.fd, buf_reserve(&end->input, size), size);

        if (n > 0) {
            end->input.len += (size_t) n;
            return CHILD_DONE;
        }
        if (n == 0) {
            end->is_ended = true;
            child_end_close(end);
        } else if (errno == EAGAIN) {
            enum child_result result = await(end, deadline_ms);

            if (result != CHILD_DONE) {
                return result;
            }
        } else if (errno != EINTR) {
            return CHILD_FAILED;
        }
    }
}

/* ---- the child ---- */

static struct list children = {&children, &children};

static void child_ended(struct child *child, int status)
{
    child->has_ended = true;
    child->status = status;
    list_remove(&child->node);
    list_init(&child->node);
    child_end_close(&child->life);
}

bool child_look(struct child *child)
{
    int status;

    if (!child->has_ended && waitpid(child->pid, &status, WNOHANG) == child->pid) {
        child_ended(child, status);
    }
    return child->has_ended;
}

/* A single process has taken its status already. */
static bool program_ended(pid_t pid, int status)
{
    list_each(item, &children) {
        struct child *child = container_of(item, struct child, node);

        if (child->pid == pid) {
            child_ended(child, status);
            return true;
        }
    }
    return false;
}

enum child_result child_wait(struct child *child)
{
    uint64_t deadline_ms = child_deadline(&child->life);

    while (!child_look(child)) {
        enum child_result result = await(&child->life, deadline_ms);

        if (result != CHILD_DONE && !child->has_ended) {
            return result;
        }
    }
    return CHILD_DONE;
}

/* Its status is taken as soon as there is one: a child that nobody waits for is no zombie until Lua
 * collects it. */
static void life_ended(struct event_source *source, unsigned events)
{
    (void) events;
    child_look(container_of(source, struct child, life.source));
}

void child_report(struct child *child)
{
    struct child_end *const ends[] = {&child->stdin_end, &child->stdout_end, &child->stderr_end};

    child->is_reported = true;
    for (int i = 0; i < 3; i++) {
        if (!ends[i]->is_busy) {
            child_end_close(ends[i]);
        }
    }
}

static void reset_signals(void)
{
    for (int signo = 1; signo < NSIG; signo++) {
        signal(signo, SIG_DFL);
    }
    loop_restore_signals();
    /* The mask that the loop has found is that of a process which was starting, and held its
     * signals. */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * What the child does: nothing of ours stays open, no signal is held. Until the program is there it
 * lives in our memory (vfork) and may change nothing in it.
 */
_Noreturn __attribute__((noinline)) static void run(const struct child_program *program,
                                                    const int fds[3])
{
    int err = program->merges_stderr ? fds[1] : fds[2];

    reset_signals();
    if (dup2(fds[0], STDIN_FILENO) < 0 || dup2(fds[1], STDOUT_FILENO) < 0) {
        _exit(127);
    }
    /* The log must still be there where the program is not found: others than standard ones close
     * by exec. */
    syscall(SYS_close_range, 3, ~0u, CLOSE_BY_EXEC);
    if (dup2(err, STDERR_FILENO) >= 0) {
        execvp(program->args[0], program->args);
        log_error(log_main, errno, "lua pipe child execvp() failed while executing %s",
                  program->args[0]);
    }
    _exit(127);
}

/*
 * Not by fork: that copies the tables of all of our memory while everybody waits, 100 ms where
 * there are many fibers. No handler of ours runs in the child, which stands on our stack.
 */
static pid_t script_child_start(const struct child_program *program, const int fds[3])
{
    char **own_environ = environ;
    sigset_t all, former;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &former);
    if (program->environ != NULL) { /* the program is looked for in its PATH */
        environ = (char **) (uintptr_t) program->environ;
    }
    pid_t pid = vfork();
    if (pid == 0) {
        run(program, fds);
    }
    environ = own_environ;
    sigprocmask(SIG_SETMASK, &former, NULL);
    return pid;
}

/* Pipes whose both ends close by exec; ours do not block. */
static bool make_pipe(int ours_is_write, int pair[2])
{
    if (pipe2(pair, O_CLOEXEC) != 0) {
        return false;
    }
    fcntl(pair[ours_is_write], F_SETFL, O_NONBLOCK);
    return true;
}

static void close_pairs(int pairs[3][2])
{
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            if (pairs[i][k] >= 0) {
                close(pairs[i][k]);
            }
        }
    }
}

bool child_start(struct child *child, const struct child_program *program, const char **failed)
{
    int pairs[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    bool is_good = make_pipe(1, pairs[0]) && make_pipe(0, pairs[1]) &&
                   (program->merges_stderr || make_pipe(0, pairs[2]));
    const int theirs[3] = {pairs[0][0], pairs[1][1], pairs[2][1]};

    *failed = "pipe2";
    pid_t pid = is_good ? script_child_start(program, theirs) : -1;
    int pidfd = -1;
    if (pid > 0) {
        *failed = "pidfd_open";
        pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    } else if (is_good) {
        *failed = "fork";
    }
    if (pidfd < 0) {
        int error = errno;

        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        close_pairs(pairs);
        errno = error;
        return false;
    }
    child->pid = pid;
    module_program_ended = program_ended;
    list_push_back(&children, &child->node);
    child->is_merged = program->merges_stderr;
    end_init(&child->stdin_end, pairs[0][1]);
    end_init(&child->stdout_end, pairs[1][0]);
    end_init(&child->stderr_end, pairs[2][0]);
    event_source_init(&child->life.source, pidfd, life_ended);
    event_add_input(&child->life.source);
    close(theirs[0]);
    close(theirs[1]);
    if (theirs[2] >= 0) {
        close(theirs[2]);
    }
    return true;
}

/* A child that nobody has any more, and that has not ended yet. */
struct orphan {
    struct orphan *next;
    struct event_source life; /* its pidfd */
    pid_t pid;
};

static struct orphan *orphans;

static void orphan_free(struct orphan *orphan)
{
    struct orphan **at = &orphans;

    while (*at != orphan) {
        at = &(*at)->next;
    }
    *at = orphan->next;
    free(orphan);
}

static void orphan_ended(struct event_source *source, unsigned events)
{
    struct orphan *orphan = container_of(source, struct orphan, life);

    (void) events;
    /* In a single process it may have gone already. */
    if (waitpid(orphan->pid, NULL, WNOHANG) != 0) {
        event_forget(source);
        close(source->fd);
        orphan_free(orphan);
    }
}

/* Ends it, and sees to its end. */
static void let_go(struct child *child)
{
    struct orphan *orphan = malloc(sizeof(*orphan));

    kill(child->pid, SIGKILL);
    if (orphan != NULL) {
        event_source_init(&orphan->life, child->life.source.fd, orphan_ended);
        orphan->pid = child->pid;
        orphan->next = orphans;
        orphans = orphan;
        if (child->life.source.is_registered) {
            event_remove(&child->life.source);
        }
        event_forget(&child->life.source);
        child->life.source.fd = -1;
        if (!event_add_input(&orphan->life)) { /* this process ends, and is nobody's parent then */
            close(orphan->life.fd);
            orphan_free(orphan);
        }
    }
}

void child_free(struct child *child)
{
    if (child->pid > 0 && !child_look(child)) {
        let_go(child);
    }
    if (child->pid > 0) {
        list_remove(&child->node);
    }
    child_end_close(&child->stdin_end);
    child_end_close(&child->stdout_end);
    child_end_close(&child->stderr_end);
    child_end_close(&child->life);
    buf_free(&child->stdout_end.input);
    buf_free(&child->stderr_end.input);
    child->pid = 0;
}
