/* "pipe:rollback": lines from a pipe go to a file that is rotated. */
#define _GNU_SOURCE
#include "server/configuration/log_rollback.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/parse.h"

#define READ_SIZE (64 * 1024)

/* ---- configuration ---- */

static bool take_parameter(struct str word, struct log_rollback *out)
{
    uint64_t number;
    int64_t size;

    if (str_starts(word, STR("interval="))) {
        return parse_msec(str_skip(word, 9), &out->interval_ms);
    }
    if (str_starts(word, STR("adjust="))) {
        return parse_msec(str_skip(word, 7), &out->adjust_ms);
    }
    if (str_starts(word, STR("maxsize="))) {
        bool is_good = parse_offset(str_skip(word, 8), &size) && size >= 0;
        out->size_max = is_good ? (uint64_t) size : 0;
        return is_good;
    }
    if (str_starts(word, STR("baknum="))) {
        bool is_good = parse_uint(str_skip(word, 7), &number) && number >= 1 &&
                       number <= LOG_ROLLBACK_BACKUPS_MAX;
        out->backups = is_good ? (unsigned) number : 1;
        return is_good;
    }
    return false;
}

bool log_rollback_parse(struct arena *arena, struct str prefix, struct str text,
                        struct log_rollback *out, struct str *error)
{
    struct str rest = text;

    *out = (struct log_rollback){.backups = 1};
    while (rest.data != NULL) {
        struct str word = str_cut(&rest, ' ');
        if (word.len == 0) {
            continue;
        }
        if (out->path.len == 0) {
            bool is_full = word.data[0] == '/';
            out->path = arena_printf(arena, "%.*s%.*s", is_full ? 0 : (int) prefix.len, prefix.data,
                                     STR_ARG(word));
        } else if (!take_parameter(word, out)) {
            *error = arena_printf(arena, "invalid parameter \"%.*s\" in \"pipe:rollback\"",
                                  STR_ARG(word));
            return false;
        }
    }
    if (out->path.len == 0) {
        *error = STR("no file in \"pipe:rollback\"");
        return false;
    }
    if (out->path.len > PATH_MAX - 8) {
        *error = STR("the file in \"pipe:rollback\" has too long a name");
        return false;
    }
    return true;
}

/* ---- files ---- */

void log_rollback_rotate(const struct log_rollback *rollback)
{
    static char from[PATH_MAX], to[PATH_MAX]; /* not on the stack: one thread */

    for (unsigned i = rollback->backups; i > 0; i--) {
        snprintf(to, sizeof(to), "%s.%u", rollback->path.data, i);
        if (i > 1) {
            snprintf(from, sizeof(from), "%s.%u", rollback->path.data, i - 1);
        } else {
            snprintf(from, sizeof(from), "%s", rollback->path.data);
        }
        rename(from, to); /* if the log itself cannot be renamed, it continues to grow */
    }
}

/* ---- the process ---- */

struct rollback_run {
    const struct log_rollback *rollback;
    int fd;           /* of the file; -1 = it could not be opened */
    uint64_t size;    /* size of the file */
    uint64_t due_ms;  /* of the next rotation by time; UINT64_MAX = none */
    bool is_at_start; /* at the start of a line: the last byte written was a newline */
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static uint64_t next_due_ms(const struct log_rollback *rollback)
{
    uint32_t random = 0;

    if (rollback->interval_ms == 0) {
        return UINT64_MAX;
    }
    if (rollback->adjust_ms != 0 && getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        random = (uint32_t) getpid();
    }
    return now_ms() + rollback->interval_ms +
           (rollback->adjust_ms == 0 ? 0 : random % rollback->adjust_ms);
}

static void open_log(struct rollback_run *run)
{
    struct stat st;

    run->fd = fs_open_trusted(run->rollback->path.data,
                              O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    run->size = run->fd >= 0 && fstat(run->fd, &st) == 0 ? (uint64_t) st.st_size : 0;
    run->is_at_start = true;
}

static void rotate(struct rollback_run *run)
{
    if (run->fd >= 0) {
        close(run->fd);
    }
    log_rollback_rotate(run->rollback);
    open_log(run);
}

static void put(struct rollback_run *run, const char *at, size_t size)
{
    if (run->fd < 0) {
        open_log(run); /* the directory may exist by now */
    }
    while (size != 0 && run->fd >= 0) {
        ssize_t n = write(run->fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return; /* a full disk: the lines are lost, as with a plain file */
        }
        run->is_at_start = at[n - 1] == '\n';
        at += n;
        size -= (size_t) n;
        run->size += (uint64_t) n;
    }
}

/* Never splits a line: a file ends after the line that made it too large, or that was being written
   when its time was up. */
static void take(struct rollback_run *run, const char *at, size_t size)
{
    const struct log_rollback *rollback = run->rollback;

    while (size != 0) {
        const char *newline = memchr(at, '\n', size);
        size_t part = newline == NULL ? size : (size_t) (newline + 1 - at);

        if (run->is_at_start && rollback->size_max != 0 && run->size != 0 &&
            run->size + part > rollback->size_max) {
            rotate(run);
        }
        put(run, at, part);
        at += part;
        size -= part;
    }
}

/* Waits for input. Rotates when the time comes, whether or not lines arrive. False: poll failed. */
static bool wait_for_lines(struct rollback_run *run, int input)
{
    struct pollfd source = {.fd = input, .events = POLLIN};

    for (;;) {
        uint64_t now = now_ms();
        if (now >= run->due_ms && run->is_at_start) {
            if (run->size != 0) {
                rotate(run);
            }
            run->due_ms = next_due_ms(run->rollback);
        }
        uint64_t left = run->due_ms == UINT64_MAX ? INT_MAX
                        : run->due_ms > now       ? run->due_ms - now
                                                  : 0;
        int timeout = !run->is_at_start || left > INT_MAX ? -1 : (int) left;
        int ready = poll(&source, 1, timeout);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
}

int log_rollback_run(const struct log_rollback *rollback, int input)
{
    static char buffer[READ_SIZE];
    struct rollback_run run = {.rollback = rollback, .due_ms = next_due_ms(rollback)};

    open_log(&run);
    if (run.fd < 0) {
        log_write(log_main, LOG_STDERR, errno, "open() \"%s\" failed", rollback->path.data);
        return EXIT_FAILURE; /* the master starts it again */
    }
    while (wait_for_lines(&run, input)) {
        ssize_t n = read(input, buffer, sizeof(buffer));
        if (n == 0) {
            return EXIT_SUCCESS;
        }
        if (n > 0) {
            take(&run, buffer, (size_t) n);
        } else if (errno != EINTR && errno != EAGAIN) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_FAILURE;
}
