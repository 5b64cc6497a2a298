/*
 * Tengine's "pipe:" targets: one pipe and one program for each distinct command of a generation.
 * The master keeps both ends, so that a restarted program continues where the one before it ended;
 * a process that logs has the writing end. A program reads end-of-file when the master and all
 * workers have left the generation.
 */
#define _GNU_SOURCE
#include "server/configuration/log_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/configuration/log_rollback.h"
#include "server/process/server.h"
#include "server/process/signals.h"
#include "server/process/title.h"

enum {
    START_INTERVAL_MS = 1000,
    REPORT_INTERVAL_MS = 60 * 1000,
    NOT_EXECUTED = 127, /* exit status, as in a shell */
};

struct log_pipe {
    struct log_pipe *next;
    struct str command; /* NUL-terminated */
    const struct log_rollback
        *rollback;           /* "rollback …": done in this process, without a program; or NULL */
    int reader;              /* the program's standard input; -1 where it is not needed */
    int writer;              /* does not block; -1 until opened */
    pid_t pid;               /* of the program; 0 = it does not run */
    uint64_t start_at_ms;    /* not to be started before */
    uint64_t lost;           /* lines since the last report */
    uint64_t next_report_ms; /* lost lines are reported again from this time on */
};

static void close_end(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void close_pipe(void *arg)
{
    struct log_pipe *pipe = arg;

    close_end(&pipe->reader);
    close_end(&pipe->writer);
}

/* ---- configuration */

static bool is_rollback(struct str command)
{
    struct str word = str_cut(&command, ' ');

    return str_is(word, "rollback");
}

struct log_pipe *generation_log_pipe(struct conf *conf, const struct conf_node *node,
                                     struct str target)
{
    struct generation *generation = conf->generation;
    struct str command = str_skip(target, sizeof("pipe:") - 1);
    struct log_pipe **link = &generation->log_pipes;

    while (command.len != 0 && *command.data == ' ') {
        command = str_skip(command, 1);
    }
    if (command.len == 0) {
        conf_error(conf, node, "no command in \"%.*s\"", STR_ARG(target));
        return NULL;
    }
    for (; *link != NULL; link = &(*link)->next) {
        if (str_equal((*link)->command, command)) {
            return *link;
        }
    }
    struct log_pipe *pipe = arena_new(conf->arena, struct log_pipe);

    if (is_rollback(command)) {
        struct log_rollback *rollback = arena_new(conf->arena, struct log_rollback);
        struct str error = STR_NONE;

        if (!log_rollback_parse(conf->arena, conf->prefix,
                                str_skip(command, sizeof("rollback") - 1), rollback, &error)) {
            conf_error(conf, node, "%.*s", STR_ARG(error));
            return NULL;
        }
        pipe->rollback = rollback;
    }
    pipe->command = (struct str){arena_cstr(conf->arena, command), command.len};
    pipe->reader = -1;
    pipe->writer = -1;
    *link = pipe;
    arena_on_free(conf->arena, close_pipe, pipe);
    return pipe;
}

/* ---- pipes */

/* Only our end is non-blocking: the ends are two open file descriptions, and programs expect read()
   to block. */
static bool open_pipe(struct log_pipe *pipe, uint64_t size)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_emerg(log_main, errno, "pipe2() for \"%s\" failed", pipe->command.data);
        return false;
    }
    pipe->reader = ends[0];
    pipe->writer = ends[1];
    if (fcntl(pipe->writer, F_SETFL, O_NONBLOCK) != 0) {
        log_emerg(log_main, errno, "fcntl(O_NONBLOCK) for \"%s\" failed", pipe->command.data);
        return false;
    }
    if (size != 0 && fcntl(pipe->writer, F_SETPIPE_SZ, (int) size) < 0) {
        log_warn(log_main, errno, "fcntl(F_SETPIPE_SZ, %d) for \"%s\" failed, ignored", (int) size,
                 pipe->command.data);
    }
    return true;
}

bool log_pipes_open(struct generation *generation)
{
    if (generation->is_test) {
        return true;
    }
    for (struct log_pipe *pipe = generation->log_pipes; pipe != NULL; pipe = pipe->next) {
        if (pipe->writer < 0 && !open_pipe(pipe, generation->core->pipe_set_size)) {
            return false;
        }
    }
    return true;
}

void log_pipes_write_only(struct generation *generation)
{
    for (struct log_pipe *pipe = generation->log_pipes; pipe != NULL; pipe = pipe->next) {
        close_end(&pipe->reader);
    }
}

/* ---- programs */

static _Noreturn void run_program(const struct log_pipe *pipe)
{
    char *const args[] = {(char *) "sh", (char *) "-c", (char *) pipe->command.data, NULL};

    signals_reset();
    if (dup2(pipe->reader, STDIN_FILENO) == STDIN_FILENO) {
        if (pipe->rollback != NULL) {
            syscall(SYS_close_range, STDERR_FILENO + 1, UINT_MAX, 0);
            title_set(STR("log process"));
            _exit(log_rollback_run(pipe->rollback, STDIN_FILENO));
        }
        syscall(SYS_close_range, STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
        execve("/bin/sh", args, server.environment);
    }
    log_alert(log_main, errno, "execve(\"/bin/sh\") for \"%s\" failed", pipe->command.data);
    _exit(NOT_EXECUTED);
}

static void start_program(struct log_pipe *pipe)
{
    pipe->start_at_ms = clock_now.now_ms + START_INTERVAL_MS;
    pid_t pid = fork();

    if (pid == 0) {
        run_program(pipe);
    }
    if (pid < 0) {
        log_alert(log_main, errno, "fork() for \"%s\" failed", pipe->command.data);
        return;
    }
    pipe->pid = pid;
    log_notice(log_main, 0, "start log program %d \"%s\"", (int) pid, pipe->command.data);
}

void log_programs_start(struct generation *generation)
{
    for (struct log_pipe *pipe = generation->log_pipes; pipe != NULL; pipe = pipe->next) {
        if (pipe->pid == 0 && pipe->start_at_ms <= clock_now.now_ms) {
            start_program(pipe);
        }
    }
}

uint64_t log_programs_due_ms(const struct generation *generation)
{
    uint64_t due_ms = 0;

    for (const struct log_pipe *pipe = generation->log_pipes; pipe != NULL; pipe = pipe->next) {
        if (pipe->pid == 0 && (due_ms == 0 || pipe->start_at_ms < due_ms)) {
            due_ms = pipe->start_at_ms;
        }
    }
    return due_ms;
}

bool (*module_program_ended)(pid_t pid, int status);

bool log_program_ended(struct generation *generation, pid_t pid, int status)
{
    struct log_pipe *pipe = generation->log_pipes;

    if (module_program_ended != NULL && module_program_ended(pid, status)) {
        return true;
    }
    while (pipe != NULL && pipe->pid != pid) {
        pipe = pipe->next;
    }
    if (pipe == NULL) {
        return false;
    }
    pipe->pid = 0;
    if (WIFSIGNALED(status)) {
        log_error(log_main, 0, "log program %d \"%s\" exited on signal %d, starting it again",
                  (int) pid, pipe->command.data, WTERMSIG(status));
    } else {
        log_error(log_main, 0, "log program %d \"%s\" exited with code %d, starting it again",
                  (int) pid, pipe->command.data, WEXITSTATUS(status));
    }
    return true;
}

/* ---- lines */

/* Everything is set before the report, which may go to this same pipe and be lost as well. */
static __attribute__((cold)) void count_lost(struct log_pipe *pipe, int error)
{
    pipe->lost++;
    if (counters_mine != NULL) {
        counters_mine->limited++;
    }
    if (clock_now.now_ms < pipe->next_report_ms) {
        return;
    }
    uint64_t lost = pipe->lost;

    pipe->next_report_ms = clock_now.now_ms + REPORT_INTERVAL_MS;
    pipe->lost = 0;
    log_error(log_main, error, "%llu lines for the log program \"%s\" were lost",
              (unsigned long long) lost, pipe->command.data);
}

void log_pipe_write(struct log_pipe *pipe, struct str line)
{
    line = str_head(line, PIPE_BUF - 1); /* up to PIPE_BUF bytes are written whole or not at all */
    const struct iovec parts[] = {{(char *) line.data, line.len}, {(char *) "\n", 1}};
    ssize_t n;

    if (pipe->writer < 0) {
        return;
    }
    do {
        n = writev(pipe->writer, parts, 2);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        count_lost(pipe, errno);
    }
}
