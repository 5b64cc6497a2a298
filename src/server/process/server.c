/* What the process was started with; the first log; becoming a daemon. */
#define _GNU_SOURCE
#include "server/process/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fs.h"
#include "config.h"

struct server server;

/* Gets the lines that are logged when no other log is open any more. */
static struct log last_log = {.level = LOG_NOTICE};
static struct log_file first_file = {.fd = -1};
static struct log_sink first_sink = {.level = LOG_NOTICE, .file = &first_file};
static struct log first_log = {.sinks = &first_sink, .level = LOG_NOTICE};
static int ready_pipe = -1; /* of a daemon that is starting: written to when it is ready */

struct log *server_last_log(void)
{
    return &last_log;
}

const char *server_environment(const char *name)
{
    size_t len = strlen(name);

    for (char **variable = server.environment; variable != NULL && *variable != NULL; variable++) {
        if (strncmp(*variable, name, len) == 0 && (*variable)[len] == '=') {
            return *variable + len + 1;
        }
    }
    return NULL;
}

static char **copy_strings(struct arena *arena, char *const *strings)
{
    size_t count = 0;

    while (strings[count] != NULL) {
        count++;
    }
    char **copy = arena_array(arena, count + 1, sizeof(*copy));
    for (size_t i = 0; i < count; i++) {
        copy[i] = arena_cstr(arena, str_of(strings[i]));
    }
    return copy;
}

static struct str current_directory(struct arena *arena)
{
    char *name = getcwd(NULL, 0);
    struct str copy = name == NULL ? STR("./") : arena_printf(arena, "%s/", name);

    free(name);
    return copy;
}

/* The prefix of -p, or the configured one, with its trailing slash. */
static struct str find_prefix(struct arena *arena)
{
    struct str prefix = server.options.prefix;

    if (prefix.len == 0) {
        prefix = STR(DEFAULT_PREFIX);
    }
    if (prefix.len == 0) {
        return current_directory(arena);
    }
    bool has_slash = prefix.data[prefix.len - 1] == '/';
    return arena_printf(arena, "%.*s%s", STR_ARG(prefix), has_slash ? "" : "/");
}

/* Makes the name absolute if the shell found the program by PATH, so that it is found again from
   any directory. */
static struct str find_program(struct arena *arena, const char *name)
{
    const char *path = server_environment("PATH");
    struct str rest = str_of(path);

    if (str_find_char(str_of(name), '/') != NULL || path == NULL) {
        return arena_printf(arena, "%s", name);
    }
    while (rest.data != NULL) {
        struct str directory = str_cut(&rest, ':');
        struct str full = arena_printf(arena, "%.*s/%s", STR_ARG(directory), name);

        if (directory.len != 0 && access(full.data, X_OK) == 0) {
            return full;
        }
    }
    return arena_printf(arena, "%s", name);
}

bool server_prepare(int argc, char **argv, char **environment)
{
    struct arena *arena = &server.arena;
    const struct command_line *options = &server.options;

    arena_init(arena);
    server.argc = argc;
    server.argv = copy_strings(arena, argv);
    server.environment = copy_strings(arena, environment);
    /* Parses again, from the copies: the title is written over the originals. */
    struct buf error = {0};

    if (!command_line_parse(&server.options, argc, server.argv, &error)) {
        buf_free(&error);
        return false;
    }
    server.parent = getppid();
    server.prefix = find_prefix(arena);
    server.file_name =
        fs_full_name(arena, server.prefix,
                     options->file_name.len != 0 ? options->file_name : STR(DEFAULT_CONF_PATH));
    server.first_log_path =
        options->error_log.len != 0 ? options->error_log : STR(DEFAULT_ERROR_LOG);
    server.program = find_program(arena, argv[0]);
    if (sched_getaffinity(0, sizeof(server.cpus), &server.cpus) != 0) {
        CPU_ZERO(&server.cpus);
        for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN) && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET(cpu, &server.cpus);
        }
    }
    server.cpu_count = (unsigned) CPU_COUNT(&server.cpus);
    if (server.cpu_count == 0) {
        server.cpu_count = 1;
    }
    return true;
}

void server_free(void)
{
    log_main = &last_log;
    server_first_log_close();
    arena_free(&server.arena);
    server.environment = NULL;
}

/* ---- the first log */

void server_first_log(void)
{
    if (str_is(server.first_log_path, "stderr")) {
        first_file.fd = STDERR_FILENO;
    } else {
        first_file.path = fs_full_name(&server.arena, server.prefix, server.first_log_path);
        first_file.fd =
            fs_open_trusted(first_file.path.data, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY, 0644);
        if (first_file.fd < 0) {
            log_alert(log_main, errno, "could not open error log file: open() \"%s\" failed",
                      first_file.path.data);
            first_file.path = STR_NONE;
            first_file.fd = STDERR_FILENO;
        }
    }
    log_main = &first_log;
}

const struct log_file *server_first_log_file(void)
{
    return first_file.fd >= 0 ? &first_file : NULL;
}

void server_first_log_close(void)
{
    if (log_main == &first_log) {
        log_main = &last_log;
    }
    if (first_file.fd > STDERR_FILENO) {
        close(first_file.fd);
    }
    first_file.fd = -1;
}

/* ---- daemon */

/* The process that the user started: ends when the daemon is ready, or with its exit status when it
   fails. */
static _Noreturn void wait_for_daemon(int fd)
{
    char status = 1;
    ssize_t n;

    do {
        n = read(fd, &status, 1);
    } while (n < 0 && errno == EINTR);
    _exit(n == 1 ? status : 1);
}

static bool redirect(int from, int to)
{
    return dup2(from, to) >= 0;
}

bool daemon_start(const struct log *log)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_emerg(log, errno, "pipe() failed");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();

        if (pid < 0) {
            log_emerg(log, errno, "fork() failed");
            return false;
        }
        if (pid > 0) {
            if (i == 0) {
                close(ends[1]);
                wait_for_daemon(ends[0]);
            }
            _exit(0);
        }
        if (i == 0 && setsid() < 0) {
            log_emerg(log, errno, "setsid() failed");
            return false;
        }
    }
    close(ends[0]);
    ready_pipe = ends[1];
    server.parent = getppid();

    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0 || !redirect(fd, STDIN_FILENO) || !redirect(fd, STDOUT_FILENO)) {
        log_emerg(log, errno, "open(\"/dev/null\") failed");
        return false;
    }
    if (fd > STDERR_FILENO) {
        close(fd);
    }
    return true;
}

void daemon_is_ready(void)
{
    if (ready_pipe >= 0) {
        ssize_t n = write(ready_pipe, "", 1);

        (void) n;
        close(ready_pipe);
        ready_pipe = -1;
    }
}

/* Standard error is a copy of the error log's descriptor, and follows it when that is opened
 * again. */
static bool error_follows_log;

void standard_error_follow(const struct log *log)
{
    if (error_follows_log) {
        standard_error_to_log(log);
    }
}

void standard_error_to_log(const struct log *log)
{
    error_follows_log = true;
    for (const struct log_sink *sink = log->sinks; sink != NULL; sink = sink->next) {
        if (sink->file == NULL || sink->file->fd < 0) {
            continue;
        }
        if (sink->file->fd != STDERR_FILENO && !redirect(sink->file->fd, STDERR_FILENO)) {
            log_alert(log, errno, "dup2(STDERR) failed");
        }
        return;
    }
}
